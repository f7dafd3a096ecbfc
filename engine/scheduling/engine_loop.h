// The engine thread: takes commands, admits sessions, advances work tick by tick.
#ifndef CHORALE_ENGINE_SCHEDULING_ENGINE_LOOP_H_
#define CHORALE_ENGINE_SCHEDULING_ENGINE_LOOP_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "engine/api/call_context.h"
#include "engine/api/engine_options.h"
#include "engine/api/metrics_sink.h"
#include "engine/api/stats.h"
#include "engine/context/context_cache.h"
#include "engine/pools/buffer_pool.h"
#include "engine/scheduling/admission.h"
#include "engine/scheduling/inbox.h"
#include "engine/scheduling/queue_places.h"
#include "engine/scheduling/tick_plan.h"
#include "engine/session/session.h"

namespace chorale {

// The error of requests that arrive while the engine drains.
absl::Status DrainingError();

// One turn of the loop:
//   1. take commands (sleeping only when no work can be advanced)
//   2. end sessions that were cancelled, timed out or cannot continue
//   3. find room for contexts, admit sessions as Admission says
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

  // The files of encoded contexts; without functions there are none.
  struct FileAccess {
    // See ContextCache::UseFiles.
    std::function<bool(const RegisteredContext&)> has;
    // Has another thread read or write; the answer is a command::FileRead or FileWritten.
    std::function<void(ContextCache::FileTask)> run;
    // Returns when no task runs. Those that wait are dropped, and later ones.
    std::function<void()> stop;
  };

  // All pointers outlive the loop.
  EngineLoop(const EngineOptions& options, Backend* backend, MetricsSink* metrics,
             std::shared_ptr<Inbox> inbox, RequestRead request_read, FileAccess files = {});
  ~EngineLoop();

  // Runs until command::Stop, then ends what is left with UNAVAILABLE.
  void Run();

  // See SessionEnvironment; on the engine thread.
  bool MaySummariseAtOnce();

  // --- Any thread ---------------------------------------------------------------------------
  // Takes one of the max_queued places in the queue, which requests hold until they are admitted
  // or end. False if the queue is full: see QueuePlaces.
  bool TryEnterQueue(const Session& session, std::shared_ptr<CallControl> control);
  EngineStats stats() const;
  // Since the loop began its last tick; zero while it has nothing to advance. One that grows means
  // that the backend does not return.
  absl::Duration tick_age() const;
  absl::Status health() const;  // not Ok once the backend has failed

 private:
  struct Active {
    std::unique_ptr<Session> session;
    bool queued = true;        // holds a place in the queue
    RequestedWork requested;   // once it has its context
    double flops_done = 0;     // of requested.flops
    bool waits = false;        // known to admission_, waiting or running
    bool wait_judged = false;  // see RefuseHopeless
    bool is_short = false;     // once it is admitted: all of it takes less than a tick
    std::string lane = {};     // TickPlan::Task::lane
    // While it waits for its reader: since when nothing was acknowledged.
    absl::Time unread_since = absl::InfiniteFuture();
    int64_t acknowledged = 0;

    // What is left to do, from 0 to 1.
    double Left() const {
      return requested.flops > 0 ? std::max(0.0, 1 - flops_done / requested.flops) : 0;
    }
  };
  using ActiveList = std::list<Active>;
  struct DrainRequest {
    absl::Time deadline;
    Notification* done;
  };
  // What a task of a tick belongs to: a session, or a job of the cache.
  struct Owner {
    Active* active = nullptr;  // null for a job
    uint64_t job = 0;
    WorkKind kind = WorkKind::kRows;
    const RegisteredContext* context = nullptr;
  };

  void Handle(command::Submit& submit);
  void Handle(command::Refuse& refuse);
  void Handle(command::LookedUp& looked_up);
  void Handle(command::DataRead& read);
  void Handle(command::FileRead& read);
  void Handle(command::FileWritten& written);
  void Handle(command::Continue& continued);
  void Handle(command::PurgeDeleted& purge);
  void Handle(command::LimitPools& limit);
  void Handle(command::AddModel& add);
  void Handle(command::RetireModel& retire);
  void Handle(command::Drain& drain);
  void Handle(command::Stop& stop);

  void AttachContext(ActiveList::iterator active, absl::StatusOr<PreparedRequest> prepared);
  // Frees the weights of removed models that nothing needs any more.
  void FreeRetiredModels();
  void EndSessions(absl::Time now);
  void NoteReader(Active* active, absl::Time now) const;
  // Whether the session must end now, and how.
  std::optional<absl::Status> Verdict(const Active& active, absl::Time now);
  void Admit(absl::Time now);
  bool Start(uint64_t id, absl::Time now);
  // Refuses those that would wait too long: for longer than max_queue_wait or past their deadlines,
  // at the rate of the last seconds. Each is judged once, when a second of load has shown the rate.
  void RefuseHopeless(absl::Time now);
  // Where a client waits for what it is entitled to: ends the stream that was not read for longest
  // of those whose clients hold more than their shares.
  void EndUnread(absl::Time now);
  void Tick();
  void GatherTasks(absl::Time now);
  // Where the time of a task goes: to its request or job, and to the metrics.
  void ReportWork(const Owner& owner, double flops, absl::Duration time);
  void CollectResults();
  void CheckDrain(absl::Time now);
  // When to wake up if no command comes.
  absl::Time NextEvent(absl::Time now) const;

  ActiveList::iterator Finish(ActiveList::iterator active, absl::Status status);
  void FinishAll(const absl::Status& status);
  void ClearCache();
  void Fail(const absl::Status& status);
  // Asks the backend about its device, once a second.
  void CheckIdleDevice(absl::Time now);
  void LeaveQueue(Active* active);
  // Whose time the cache's job takes: that of the first session that waits for its context.
  const ClientShare& ShareOfJob(const ContextCache::Job& job);
  void PublishStats();
  void PublishBacklog(absl::Time now);

  const EngineOptions options_;
  Backend* const backend_;
  MetricsSink* const metrics_;
  const std::shared_ptr<Inbox> inbox_;
  const RequestRead request_read_;
  const FileAccess files_;

  ContextCache cache_;
  BufferPool buffers_;
  Admission admission_;
  int64_t unjudged_ = 0;  // sessions that wait for admission and were not judged by RefuseHopeless
  absl::Time load_began_ = absl::InfiniteFuture();  // since when there is always one that waits
  TickPlan plan_;
  std::unordered_map<uint64_t, ClientShare> share_of_job_;
  const bool decodes_in_step_;  // TickPolicy::decodes_in_step
  ActiveList sessions_;         // in order of arrival
  std::unordered_map<uint64_t, ActiveList::iterator> by_id_;
  int64_t running_ = 0;                                // admitted sessions
  std::vector<std::shared_ptr<ServedModel>> retired_;  // removed; their weights are still there
  std::vector<DrainRequest> drains_;
  bool draining_ = false;
  bool stopping_ = false;
  absl::Time shared_at_ = absl::InfinitePast();  // when several clients last had work
  bool shared_ = false;                          // it was a short time ago, and that matters
  int summaries_at_once_ = 0;                    // in the current tick
  bool busy_ = false;                            // the last tick had something to advance
  // A session ended since Admit last looked for room: it looks again before the thread sleeps.
  bool room_given_back_ = false;
  absl::Status failure_;
  absl::Time backlog_published_ = absl::InfinitePast();
  absl::Time next_device_check_ = absl::InfinitePast();
  bool files_stopped_ = false;

  // Of the current tick; members only to reuse their capacity.
  std::vector<Command> commands_;
  std::vector<Owner> owners_;  // of the tasks of plan_, in their order
  std::vector<Slice> slices_;  // of a session

  QueuePlaces places_;
  static constexpr int64_t kIdle = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> tick_began_{kIdle};  // Unix nanoseconds of a time of the clock
  mutable Mutex mutex_;
  EngineStats stats_ ABSL_GUARDED_BY(mutex_);
  absl::Status health_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SCHEDULING_ENGINE_LOOP_H_
