// A request in flight: the common part of all kinds of requests.
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

// The parts of the engine that sessions use. Outlives every session.
struct SessionEnvironment {
  Backend* backend = nullptr;
  MetricsSink* metrics = nullptr;
  const Clock* clock = nullptr;
  int64_t max_slices = 1;                 // maximum pieces of work per tick
  int64_t max_unacknowledged_values = 0;  // see Call::Acknowledge

  // Runs `job` on a summary thread, and then the returned continuation on the engine thread. Runs
  // neither once the session has ended. Jobs of a session may run at the same time. All sessions
  // share these threads, on which the names in `turn` take turns, so a job should take no longer
  // than a few milliseconds.
  using Continuation = std::function<void()>;
  std::function<void(uint64_t session, std::shared_ptr<const CallControl> control,
                     const std::string& turn, std::function<Continuation()> job)>
      run_on_summary_thread;
  // Returns true if a job of less than a millisecond may run on the engine thread instead. This is
  // allowed a few times per tick, while a tick of another client's work would delay the return from
  // the summary threads.
  std::function<bool()> may_summarise_at_once;
};

// The work of a request: estimated FLOPs, and the values to draw, the values whose density is
// computed, or the rows to predict.
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

// A session passes through these states:
//
//   looking up ---> waiting for context ---> waiting for admission
//    (loader)           (pinned)                   (resident)
//     ---> encoding rows ---> running ---> complete
//          (buffers held)
//
// A session can end early in each state: the request is invalid, there is no space, the request is
// cancelled or past its deadline, or the device has failed. A request whose context is in memory
// skips the look-up. A WarmSession is complete as soon as its context is resident.
//
// Thread contract: created by any thread, then owned by the engine thread.
class Session {
 public:
  enum class State {
    kLookingUp,
    kWaitingForContext,
    kWaitingForAdmission,
    kEncodingRows,
    kRunning,
    kComplete,  // next: End
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
  // Returns true if another client's request has taken the queue slot of this request.
  bool displaced() const { return start_.control->displaced; }
  const ContextCache::Pin& pin() const { return pin_; }
  // REQUIRES: SetContext was called.
  const RegisteredContext& context() const { return *context_; }

  // Returns true if the request is complete once it was validated against its context: it does not
  // wait for the context to be resident, and does no work.
  virtual bool only_validates() const { return false; }
  // Returns true if the look-up waits until the context is encoded anew as a whole. This wait does
  // not count as time in the queue.
  virtual bool encodes_anew() const { return false; }

  // --- Before admission, in this order --------------------------------------------------------
  // `pin` is empty if only_validates().
  void SetContext(PreparedRequest prepared, ContextCache::Pin pin);
  // Returns true if the session waits for a context that cannot become resident, because another
  // registration has replaced it.
  bool lost_context() const {
    return state_ == State::kWaitingForContext && !pin_.status().ok() && context_->replaced;
  }
  // Returns to the look-up of the context. REQUIRES: lost_context().
  void ForgetContext();
  // Sets the state to kWaitingForAdmission once the context is resident, and measures the time
  // spent waiting for space. Call it in each turn of the loop until admission.
  void CheckContext(absl::Time now);
  // Returns the time that the request has spent waiting for the look-up, for space or for
  // admission. Excludes the time for reading and encoding its context.
  absl::Duration TimeQueued(absl::Time now) const;
  // Returns the tiles, and the buffer bytes that the session needs at the same time. REQUIRES:
  // SetContext was called.
  const TilePlan& plan() const { return plan_; }
  // Returns all work of the request, except encoding its context and its query rows.
  virtual RequestedWork Requested() const { return RequestedWork(); }
  // Starts the session. `buffers` are the leases of plan().ranges().
  void Admit(std::vector<BufferPool::Lease> buffers, absl::Time now);

  // --- While admitted -------------------------------------------------------------------------
  // Appends the work that can be advanced, the most urgent first, each with the maximum number of
  // steps that it can use now: 1 to Work::steps_at_this_cost.
  void AppendSlices(std::vector<Slice>* slices);
  // Returns true if the session has work, but can advance none of it until its caller acknowledges
  // values.
  virtual bool WaitsForReader() const { return false; }
  // Takes the results of the last tick. May set the state to kComplete.
  void Collect(absl::Time now);

  // --- The end --------------------------------------------------------------------------------
  // Frees work, buffers and pin. Derived classes first free their own work.
  virtual void ReleaseResources();
  // Sends the report and the outcome to the caller. REQUIRES: not called before, and
  // ReleaseResources was called.
  void End(absl::Status status, absl::Time now);

 protected:
  virtual void Deliver(absl::Status status, absl::Time now) = 0;
  // Plans the tiles; called when the request has been validated against its context, and again
  // after ForgetContext.
  virtual TilePlan MakePlan() { return TilePlan(); }
  // Returns true if the session is complete once its context is resident.
  virtual bool ContextIsEnough() const { return false; }
  // Creates the first tiles; called once the query rows are encoded. The default implementations of
  // the three methods for tiles do nothing, for sessions whose ContextIsEnough returns true.
  virtual void Start() {}
  virtual void AppendTiles(std::vector<Slice>* slices) {}
  virtual void CollectTiles(absl::Time now) {}

  void Complete() { state_ = State::kComplete; }
  // A short job does not wait for the other jobs of its client.
  void RunOnSummaryThread(bool is_short,
                          std::function<SessionEnvironment::Continuation()> job) const {
    environment_->run_on_summary_thread(
        start_.id, start_.control, share().client + (is_short ? " (short)" : ""), std::move(job));
  }
  // REQUIRES: the context is resident.
  void StayResident() { pin_.StayResident(); }
  void NoteFirstStep(absl::Time now);
  // Reports results for the caller; see MetricsSink::Values.
  void ReportValues(WorkKind kind, int64_t count) const;
  Timings TimingsAt(absl::Time now) const;
  // Returns the digests of dataset and model. REQUIRES: SetContext was called.
  Source source() const { return {context_->record.digest, context_->model->info.digest}; }
  // Sets the fields that all results have. REQUIRES: SetContext was called.
  void Describe(absl::Time now, ResultBase* result) const {
    result->timings = TimingsAt(now);
    result->source = source();
    result->notes = notes_;
  }
  // Passes the error, or the described result, to a caller that waits for a single response.
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
  int64_t query_rows() const { return query_rows_; }  // T

 private:
  CallReport ReportAt(absl::Time now) const;

  const CallStart start_;
  const SessionEnvironment* const environment_;
  State state_ = State::kLookingUp;

  std::shared_ptr<const RegisteredContext> context_;
  int64_t query_rows_ = 0;
  FeatureMatrix features_;  // moved out at admission
  std::vector<ColumnNote> notes_;
  TilePlan plan_;
  // The order of these members matters: work uses rows, buffers and the pinned context.
  ContextCache::Pin pin_;
  std::vector<BufferPool::Lease> buffers_;  // one per slot
  BufferPool::Lease rows_buffer_;
  std::unique_ptr<RowsWork> rows_work_;
  std::shared_ptr<const EncodedRows> rows_;

  bool found_resident_ = false;
  bool queue_clock_runs_ = true;  // since arrival
  absl::Time queue_clock_since_;
  absl::Duration queued_;
  bool restored_ = false;  // restored, not encoded
  std::optional<absl::Time> context_began_;
  std::optional<absl::Time> context_ready_;
  absl::Time admitted_at_ = absl::InfiniteFuture();
  std::optional<absl::Time> first_step_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_SESSION_H_
