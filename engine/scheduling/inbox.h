// Commands from other threads to the engine thread.
#ifndef CHORALE_ENGINE_SCHEDULING_INBOX_H_
#define CHORALE_ENGINE_SCHEDULING_INBOX_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/notification.h"
#include "engine/session/session.h"

namespace chorale {

namespace command {

// A new request. Without `prepared`, a LookedUp with the id of the session follows.
struct Submit {
  std::unique_ptr<Session> session;
  std::optional<absl::StatusOr<PreparedRequest>> prepared;
  // Looks up the context again, if another registration has replaced it; a LookedUp follows.
  std::function<void()> look_up = {};
};
// A request that was rejected before it was queued.
struct Refuse {
  std::unique_ptr<Session> session;
  absl::Status status;
};
// The response of the loader for a request whose context was not in memory.
struct LookedUp {
  uint64_t session = 0;
  absl::StatusOr<PreparedRequest> prepared;
  std::shared_ptr<const RegisteredContext> context;  // null if it was not loaded, or is local
};
// The response of the loader to ContextCache::TakeReads.
struct DataRead {
  std::shared_ptr<const RegisteredContext> context;
  absl::StatusOr<ContextData> data;
};
// The responses to the tasks of ContextCache::TakeFileTasks.
struct FileRead {
  std::shared_ptr<const RegisteredContext> context;
  absl::StatusOr<std::string> encoder_state;
};
struct FileWritten {};
// See SessionEnvironment::run_on_summary_thread.
struct Continue {
  uint64_t session = 0;
  SessionEnvironment::Continuation continuation;
};
struct PurgeDeleted {};
// `context` has the rows of its predecessors, and more. Begins to encode it once one of them is
// resident, if one is, or is being made resident. Then purges them, because they were replaced.
struct Succeed {
  std::shared_ptr<const RegisteredContext> context;
  std::function<void()> acquired;  // called if the cache holds the context from now on
};
// See ContextCache::OnRegistered. Purges the context that was replaced.
struct EncodedAnew {
  std::shared_ptr<const RegisteredContext> context;
  bool stays = false;
};
// See Engine::LimitPools.
struct LimitPools {
  int64_t context = 0;
  int64_t buffer = 0;
};
// Adds a model to the backend, and sets `outcome` to the result of Engine::AddModel. The pointers
// are valid until `done` is notified.
struct AddModel {
  const Model* model;
  ServedModel* served;
  absl::StatusOr<ModelOutcome>* outcome;
  Notification* done;
};
// Frees the weights of a removed model when nothing needs them any longer.
struct RetireModel {
  std::shared_ptr<ServedModel> model;
};
struct Drain {
  absl::Time deadline;
  Notification* done;
};
struct Stop {};

}  // namespace command

using Command =
    std::variant<command::Submit, command::Refuse, command::LookedUp, command::DataRead,
                 command::FileRead, command::FileWritten, command::Continue, command::PurgeDeleted,
                 command::Succeed, command::EncodedAnew, command::LimitPools, command::AddModel,
                 command::RetireModel, command::Drain, command::Stop>;

// A first-in, first-out queue of commands. Thread-safe; only one thread calls Take.
class Inbox {
 public:
  // `clock` is not owned.
  explicit Inbox(const Clock* clock) : clock_(clock) {}

  // Drops the command after Close.
  void Push(Command command);
  // Wakes a waiting Take without a command.
  void Poke();

  // Waits until there is a command or a poke, or `deadline` has passed. Then appends
  // all commands to `commands`.
  void Take(absl::Time deadline, std::vector<Command>* commands);
  // Appends the remaining commands. Later commands are dropped.
  void Close(std::vector<Command>* commands);

 private:
  const Clock* const clock_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Command> commands_ ABSL_GUARDED_BY(mutex_);
  bool poked_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SCHEDULING_INBOX_H_
