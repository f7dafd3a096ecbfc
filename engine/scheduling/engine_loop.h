// The engine thread, which takes commands, admits sessions, and advances work tick by tick.
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

// Returns the error of requests that arrive while the engine drains.
absl::Status DrainingError();

// Each turn of the loop
//   1. takes commands (it sleeps only if no work can be advanced)
//   2. ends sessions that are cancelled, past their deadline, or unable to continue
//   3. allocates space for contexts, and admits sessions by the rules of Admission
//   4. advances some pieces of work for about one query row tick, and passes on the results
//
// Memory is freed before the caller learns that its call has ended.
//
// Thread contract: only the engine thread calls Run and the private methods. Any thread may call
// the methods below the line "Any thread".
class EngineLoop {
 public:
  // Requests the data of a context from the loader, which responds with a command::DataRead.
  using RequestRead = std::function<void(std::shared_ptr<const RegisteredContext>)>;

  // Access to the files of encoded contexts. Without functions, there are no files.
  struct FileAccess {
    // See ContextCache::UseFiles.
    std::function<bool(const RegisteredContext&)> has;
    // Starts a task on another thread, which responds with a command::FileRead or FileWritten.
    std::function<void(ContextCache::FileTask)> run;
    // Returns when no task runs. Drops waiting tasks and all later tasks.
    std::function<void()> stop;
  };

  // All pointers must outlive the loop.
  EngineLoop(const EngineOptions& options, Backend* backend, MetricsSink* metrics,
             std::shared_ptr<Inbox> inbox, RequestRead request_read, FileAccess files = {});
  ~EngineLoop();

  // Runs until command::Stop, and then ends the remaining sessions with UNAVAILABLE.
  void Run();

  // See SessionEnvironment. Engine thread.
  bool MaySummariseAtOnce();

  // --- Any thread ---------------------------------------------------------------------------
  // Takes one of the max_queued slots of the queue, which a request holds until it is admitted or
  // ends. Returns false if the queue is full; see QueuePlaces.
  bool TryEnterQueue(const Session& session, std::shared_ptr<CallControl> control);
  EngineStats stats() const;
  // Returns the time since the start of the last tick, or zero while there is no work to advance.
  // If it grows, the backend does not return.
  absl::Duration tick_age() const;
  absl::Status health() const;  // not OK once the backend has failed

 private:
  struct Active {
    std::unique_ptr<Session> session;
    bool queued = true;                  // holds a slot of the queue
    RequestedWork requested;             // set once it has its context
    double flops_done = 0;               // part of requested.flops
    bool waits = false;                  // known to admission_, as waiting or running
    bool wait_judged = false;            // see RefuseHopeless
    bool is_short = false;               // set at admission: all its work takes less than a tick
    std::string lane = {};               // TickPlan::Task::lane
    std::function<void()> look_up = {};  // command::Submit::look_up
    // The time since which nothing has been acknowledged, while the session waits for its reader.
    absl::Time unread_since = absl::InfiniteFuture();
    int64_t acknowledged = 0;

    // Returns the part of the work that is left, from 0 to 1.
    double Left() const {
      return requested.flops > 0 ? std::max(0.0, 1 - flops_done / requested.flops) : 0;
    }
  };
  using ActiveList = std::list<Active>;
  struct DrainRequest {
    absl::Time deadline;
    Notification* done;
  };
  // The owner of a task of a tick: a session, or a job of the cache.
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
  void Handle(command::Succeed& succeed);
  void Handle(command::EncodedAnew& encoded);
  void Handle(command::LimitPools& limit);
  void Handle(command::AddModel& add);
  void Handle(command::RetireModel& retire);
  void Handle(command::Drain& drain);
  void Handle(command::Stop& stop);

  void AttachContext(ActiveList::iterator active, absl::StatusOr<PreparedRequest> prepared);
  // Frees the weights of removed models that are no longer needed.
  void FreeRetiredModels();
  void EndSessions(absl::Time now);
  void NoteReader(Active* active, absl::Time now) const;
  // Returns the status with which the session must end now, or nullopt.
  std::optional<absl::Status> Verdict(const Active& active, absl::Time now);
  void Admit(absl::Time now);
  bool Start(uint64_t id, absl::Time now);
  // Rejects requests that would wait too long at the rate of the last seconds: longer than
  // max_queue_wait, or past their deadlines. Checks each request once, when the rate has been
  // measured for a second of load.
  void RefuseHopeless(absl::Time now);
  // If a client waits for resources to which it is entitled, ends the stream that has been unread
  // for longest, among the streams of clients above their shares.
  void EndUnread(absl::Time now);
  void Tick();
  void GatherTasks(absl::Time now);
  // Reports the work and the time of a task to its session or job, and to the metrics.
  void ReportWork(const Owner& owner, double flops, absl::Duration time);
  void CollectResults();
  void CheckDrain(absl::Time now);
  // Returns the time at which the loop must continue if no command arrives.
  absl::Time NextEvent(absl::Time now) const;

  ActiveList::iterator Finish(ActiveList::iterator active, absl::Status status);
  void FinishAll(const absl::Status& status);
  void PurgeDeleted();
  void ClearCache();
  void Fail(const absl::Status& status);
  // Checks the device of the backend, once a second.
  void CheckIdleDevice(absl::Time now);
  void LeaveQueue(Active* active);
  // Returns the client whose time the job uses: the client of the first session that waits for its
  // context.
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
  // Contexts with appended rows that wait for a predecessor, or for space while it stays resident.
  std::vector<ContextCache::Pin> successors_;
  BufferPool buffers_;
  Admission admission_;
  int64_t unjudged_ = 0;  // waiting sessions that RefuseHopeless has not checked
  // Since this time, requests have always waited for admission.
  absl::Time load_began_ = absl::InfiniteFuture();
  TickPlan plan_;
  std::unordered_map<uint64_t, ClientShare> share_of_job_;
  const bool decodes_in_step_;  // TickPolicy::decodes_in_step
  ActiveList sessions_;         // in order of arrival
  std::unordered_map<uint64_t, ActiveList::iterator> by_id_;
  int64_t running_ = 0;                                // admitted sessions
  std::vector<std::shared_ptr<ServedModel>> retired_;  // weights not yet freed
  std::vector<DrainRequest> drains_;
  bool draining_ = false;
  bool stopping_ = false;
  absl::Time shared_at_ = absl::InfinitePast();  // when several clients last had work
  bool shared_ = false;        // the ticks are short, because several clients had work recently
  int summaries_at_once_ = 0;  // in the current tick
  bool busy_ = false;          // the last tick had work to advance
  // A session has ended since the last Admit. Admit runs again before the thread sleeps.
  bool room_given_back_ = false;
  absl::Status failure_;
  absl::Time backlog_published_ = absl::InfinitePast();
  absl::Time next_device_check_ = absl::InfinitePast();
  bool files_stopped_ = false;

  // Data of the current tick; members only to reuse their capacity.
  std::vector<Command> commands_;
  std::vector<Owner> owners_;  // of the tasks of plan_, in their order
  std::vector<Slice> slices_;  // of one session

  QueuePlaces places_;
  static constexpr int64_t kIdle = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> tick_began_{kIdle};  // Unix nanoseconds of a time of the clock
  mutable Mutex mutex_;
  EngineStats stats_ ABSL_GUARDED_BY(mutex_);
  absl::Status health_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SCHEDULING_ENGINE_LOOP_H_
