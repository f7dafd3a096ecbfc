// The engine thread: takes commands, admits sessions, advances work tick by tick.
#ifndef CHORALE_ENGINE_LOOP_ENGINE_LOOP_H_
#define CHORALE_ENGINE_LOOP_ENGINE_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "engine/context/context_cache.h"
#include "engine/engine.h"
#include "engine/loop/inbox.h"
#include "engine/loop/scheduler.h"
#include "engine/loop/step_time_model.h"
#include "engine/memory/buffer_pool.h"
#include "engine/session/session.h"

namespace chorale {

// The error of requests that arrive while the engine drains.
absl::Status DrainingError();

// One turn of the loop:
//   1. take commands (sleeping only when no work can be advanced)
//   2. end sessions that were cancelled, timed out or cannot continue
//   3. find room for contexts, admit sessions in order of arrival
//   4. advance some pieces of work for about one target tick, and hand out the results
//
// Memory is freed before the caller is told that its call has ended.
//
// Thread contract: Run and all private methods belong to the engine thread; the methods marked so
// may be called by any thread.
class EngineLoop {
 public:
  // Asks the loader for a context's data; the answer is a command::DataRead.
  using RequestRead = std::function<void(std::shared_ptr<const RegisteredContext>)>;

  // All pointers outlive the loop.
  EngineLoop(const EngineOptions& options, Backend* backend, MetricsSink* metrics,
             std::shared_ptr<Inbox> inbox, RequestRead request_read);
  ~EngineLoop();

  // Runs until command::Stop, then cancels what is left.
  void Run();

  // --- Any thread ---------------------------------------------------------------------------
  // Takes one of the max_queued places in the queue, which requests hold until they are admitted
  // or end. False if the queue is full.
  bool TryEnterQueue();
  EngineStats stats() const;
  absl::Status health() const;  // not Ok once the backend has failed

 private:
  struct Active {
    std::unique_ptr<Session> session;
    bool queued = true;  // holds a place in the queue
  };
  using ActiveList = std::list<Active>;
  struct DrainRequest {
    absl::Time deadline;
    Notification* done;
  };
  // One candidate of a tick: work of a session, or an encoding (session is null).
  struct Task {
    Runnable runnable;
    uint64_t flow = 0;
    double step_flops = 0;
  };

  void Handle(command::Submit& submit);
  void Handle(command::Refuse& refuse);
  void Handle(command::LookedUp& looked_up);
  void Handle(command::DataRead& read);
  void Handle(command::Continue& continued);
  void Handle(command::PurgeDeleted& purge);
  void Handle(command::Drain& drain);
  void Handle(command::Stop& stop);

  void AttachContext(ActiveList::iterator active, absl::StatusOr<PreparedRequest> prepared);
  void EndSessions(absl::Time now);
  // Whether the session must end now, and how.
  std::optional<absl::Status> Verdict(const Active& active, absl::Time now);
  void Admit(absl::Time now);
  void Tick();
  void GatherTasks();
  Scheduler::Limits TickLimits() const;
  void EqualizeDecodeSteps(std::vector<Scheduler::Pick>* picks) const;
  void ChargeFlows(absl::Span<const Scheduler::Pick> picks, absl::Duration elapsed);
  void CollectResults();
  void CheckDrain(absl::Time now);
  // When to wake up if no command comes.
  absl::Time NextEvent(absl::Time now) const;

  ActiveList::iterator Finish(ActiveList::iterator active, absl::Status status);
  void FinishAll(const absl::Status& status);
  void Fail(const absl::Status& status);
  void LeaveQueue(Active* active);
  void PublishStats();

  const EngineOptions options_;
  Backend* const backend_;
  MetricsSink* const metrics_;
  const std::shared_ptr<Inbox> inbox_;
  const RequestRead request_read_;

  ContextCache cache_;
  BufferPool buffers_;
  Scheduler scheduler_;
  const bool decodes_in_step_;  // TickPolicy::decodes_in_step
  FlopRate rate_;               // of all slices, or of those not stepped together
  StepTimeModel step_times_;    // of decodes stepped together
  ActiveList sessions_;         // in order of arrival
  std::unordered_map<uint64_t, ActiveList::iterator> by_id_;
  int64_t running_ = 0;  // admitted sessions
  std::vector<DrainRequest> drains_;
  bool draining_ = false;
  bool stopping_ = false;
  bool busy_ = false;  // the last tick had something to advance
  // A session ended since Admit last looked for room: it looks again before the thread sleeps.
  bool room_given_back_ = false;
  absl::Status failure_;

  // Of the current tick; members only to reuse their capacity.
  std::vector<Command> commands_;
  std::vector<Runnable> runnables_;
  std::vector<Task> tasks_;
  std::vector<Scheduler::Candidate> candidates_;
  std::vector<Slice> slices_;

  std::atomic<int64_t> queued_{0};
  mutable Mutex mutex_;
  EngineStats stats_ ABSL_GUARDED_BY(mutex_);
  absl::Status health_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_LOOP_ENGINE_LOOP_H_
