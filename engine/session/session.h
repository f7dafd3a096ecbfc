// A request in flight: the part common to all kinds.
#ifndef CHORALE_ENGINE_SESSION_SESSION_H_
#define CHORALE_ENGINE_SESSION_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "engine/api/call_context.h"
#include "engine/api/call_report.h"
#include "engine/api/metrics_sink.h"
#include "engine/api/request.h"
#include "engine/backend/backend.h"
#include "engine/context/context_cache.h"
#include "engine/context/preparation.h"
#include "engine/context/registered_context.h"
#include "engine/pools/buffer_pool.h"
#include "engine/session/call_control.h"
#include "engine/session/tile_plan.h"

namespace chorale {

// The engine as sessions see it. Outlives every session.
struct SessionEnvironment {
  Backend* backend = nullptr;
  MetricsSink* metrics = nullptr;
  const Clock* clock = nullptr;
  int64_t max_slices = 1;                 // most pieces of work that one tick advances
  int64_t max_unacknowledged_values = 0;  // see Call::Acknowledge

  // Runs `job` on the summary thread, then the continuation that it returned on the engine thread.
  // Neither runs once the session has ended. All sessions share the summary thread, so a job should
  // be short.
  using Continuation = std::function<void()>;
  std::function<void(uint64_t session, std::shared_ptr<const CallControl> control,
                     std::function<Continuation()> job)>
      run_on_summary_thread;
  // Whether a job that takes less than a millisecond may run on the engine thread instead: a few
  // times in a tick, where a tick of another client's work would pass on the way to the summary
  // thread and back.
  std::function<bool()> may_summarise_at_once;
};

// How much a request asks for: estimated FLOPs, and values drawn, values with a density, or rows
// predicted.
struct RequestedWork {
  WorkKind kind = WorkKind::kRows;
  double flops = 0;
  int64_t values = 0;
};

struct CallStart {
  uint64_t id = 0;
  std::shared_ptr<CallControl> control;
  absl::Time arrival;
  CallContext call;
};

// The life of a session:
//
// clang-format off
//   looking up ---> waiting for context ---> waiting for admission ---> encoding rows ---> running ---> complete
//    (loader)           (pinned)                   (resident)             (buffers held)
//
// clang-format on
// From each state a session can end early: bad request, no room, cancelled, deadline, device
// failed. A request that finds its context in memory skips the look-up. Warm is complete as soon as
// its context is resident.
//
// Thread contract: made by any thread, then owned by the engine thread alone.
class Session {
 public:
  enum class State {
    kLookingUp,
    kWaitingForContext,
    kWaitingForAdmission,
    kEncodingRows,
    kRunning,
    kComplete,  // End is next
  };

  Session(CallStart start, const SessionEnvironment* environment)
      : start_(std::move(start)), environment_(environment), queue_clock_since_(start_.arrival) {}
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  uint64_t id() const { return start_.id; }
  absl::Time arrival() const { return start_.arrival; }
  const std::string& tenant() const { return start_.call.tenant; }
  const ClientShare& share() const { return start_.call.share; }
  int64_t max_resident_bytes() const { return start_.call.max_resident_bytes; }
  absl::Time deadline() const { return start_.call.deadline; }
  bool cancelled() const { return start_.control->cancelled; }
  State state() const { return state_; }
  int64_t acknowledged() const { return start_.control->acknowledged; }
  // Whether another client's request took its place in the queue.
  bool displaced() const { return start_.control->displaced; }
  const ContextCache::Pin& pin() const { return pin_; }
  // REQUIRES: it has its context.
  const RegisteredContext& context() const { return *context_; }

  // --- Before admission, in this order --------------------------------------------------------
  void SetContext(PreparedRequest prepared, ContextCache::Pin pin);
  // Call in every turn of the loop until admission; Moves on to waiting for
  // admission once the context is resident, and measures the time spent waiting for room.
  void CheckContext(absl::Time now);
  // Time spent so far waiting to be looked up, for room or for admission, not for the context's
  // data or encoding.
  absl::Duration TimeQueued(absl::Time now) const;
  // Tiles and buffer bytes that it needs at once.
  virtual TilePlan Plan() const { return TilePlan(); }
  // All that it asks for, the encoding of its context and rows left out.
  virtual RequestedWork Requested() const { return RequestedWork(); }
  // `buffers` are those of Plan().ranges().
  void Admit(std::vector<BufferPool::Lease> buffers, absl::Time now);

  // --- While admitted -------------------------------------------------------------------------
  // Appends the work to be advanced, the most urgent first, with the most steps that it can use
  // now: 1 to Work::steps_at_this_cost.
  void AppendSlices(std::vector<Slice>* slices);
  // Whether it has work, none of which is advanced before its caller acknowledges values.
  virtual bool WaitsForReader() const { return false; }
  // Takes the results of the last tick; may reach kComplete.
  void Collect(absl::Time now);

  // --- The end --------------------------------------------------------------------------------
  // Frees work, buffers and pin. Derived classes free their work first.
  virtual void ReleaseResources();
  // Reports, and tells the caller how it ended. REQUIRES: called once, and holds no resources.
  void End(absl::Status status, absl::Time now);

 protected:
  virtual void Deliver(absl::Status status, absl::Time now) = 0;
  // Whether the session is complete once its context is resident.
  virtual bool ContextIsEnough() const { return false; }
  // Called once the rows are encoded: makes the first tiles. The three hooks for tiles do nothing
  // in a session for which the context is enough.
  virtual void Start() {}
  virtual void AppendTiles(std::vector<Slice>* slices) {}
  virtual void CollectTiles(absl::Time now) {}

  void Complete() { state_ = State::kComplete; }
  void RunOnSummaryThread(std::function<SessionEnvironment::Continuation()> job) const {
    environment_->run_on_summary_thread(start_.id, start_.control, std::move(job));
  }
  // REQUIRES: the context is resident.
  void StayResident() { pin_.StayResident(); }
  void NoteFirstStep(absl::Time now);
  // Reports results for the caller; see MetricsSink::Values.
  void ReportValues(WorkKind kind, int64_t count) const;
  Timings TimingsAt(absl::Time now) const;
  // What its results are computed from. REQUIRES: it has its context.
  Source source() const { return {context_->record.digest, context_->model->info.digest}; }
  // Fills what all results have. REQUIRES: it has its context.
  void Describe(absl::Time now, ResultBase* result) const {
    result->timings = TimingsAt(now);
    result->source = source();
    result->notes = notes_;
  }
  // Answers a caller that waits for one reply: the error, or the described result.
  template <typename Result>
  void Answer(const std::function<void(absl::StatusOr<Result>)>& done, absl::Status status,
              Result result, absl::Time now) const {
    if (!status.ok()) {
      done(std::move(status));
      return;
    }
    Describe(now, &result);
    done(std::move(result));
  }

  const SessionEnvironment& environment() const { return *environment_; }
  CallControl& control() const { return *start_.control; }
  const std::shared_ptr<const RegisteredContext>& context_pointer() const { return context_; }
  const ModelConfig& config() const { return context_->model->info.config; }
  std::shared_ptr<const ResidentContext> resident() const { return pin_.resident(); }
  const std::shared_ptr<const EncodedRows>& rows() const { return rows_; }
  std::vector<BufferPool::Lease>& buffers() { return buffers_; }
  int64_t targets() const { return target_rows_; }  // T

 private:
  CallReport ReportAt(absl::Time now) const;

  const CallStart start_;
  const SessionEnvironment* const environment_;
  State state_ = State::kLookingUp;

  std::shared_ptr<const RegisteredContext> context_;
  int64_t target_rows_ = 0;
  FeatureMatrix features_;  // until admission
  std::vector<ColumnNote> notes_;
  // In this order: work uses rows, buffers and the pinned context.
  ContextCache::Pin pin_;
  std::vector<BufferPool::Lease> buffers_;  // of the slots
  BufferPool::Lease rows_buffer_;
  std::unique_ptr<RowsWork> rows_work_;
  std::shared_ptr<const EncodedRows> rows_;

  bool found_resident_ = false;
  bool queue_clock_runs_ = true;  // since arrival
  absl::Time queue_clock_since_;
  absl::Duration queued_;
  bool restored_ = false;  // rather than encoded
  std::optional<absl::Time> context_began_;
  std::optional<absl::Time> context_ready_;
  absl::Time admitted_at_ = absl::InfiniteFuture();
  std::optional<absl::Time> first_step_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_SESSION_H_
