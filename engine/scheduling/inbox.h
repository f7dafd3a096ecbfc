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

// A new request. Without `prepared`, a LookedUp with its id follows.
struct Submit {
  std::unique_ptr<Session> session;
  std::optional<absl::StatusOr<PreparedRequest>> prepared;
};
// A request that was refused before it was queued.
struct Refuse {
  std::unique_ptr<Session> session;
  absl::Status status;
};
// The loader's answer for a request whose context was not in memory.
struct LookedUp {
  uint64_t session = 0;
  absl::StatusOr<PreparedRequest> prepared;
  std::shared_ptr<const RegisteredContext> context;  // null when there is none
};
// The loader's answer to ContextCache::TakeReads.
struct DataRead {
  std::shared_ptr<const RegisteredContext> context;
  absl::StatusOr<ContextData> data;
};
// The answers to ContextCache::TakeFileTasks.
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
// See Engine::LimitPools.
struct LimitPools {
  int64_t context = 0;
  int64_t buffer = 0;
};
// Gives a model to the backend; `outcome` is that of Engine::AddModel. The pointers are valid until
// `done` is notified.
struct AddModel {
  const Model* model;
  ServedModel* served;
  absl::StatusOr<ModelOutcome>* outcome;
  Notification* done;
};
// The weights of a model that was removed go when nothing needs them any more.
struct RetireModel {
  std::shared_ptr<ServedModel> model;
};
struct Drain {
  absl::Time deadline;
  Notification* done;
};
struct Stop {};

}  // namespace command

using Command = std::variant<command::Submit, command::Refuse, command::LookedUp, command::DataRead,
                             command::FileRead, command::FileWritten, command::Continue,
                             command::PurgeDeleted, command::LimitPools, command::AddModel,
                             command::RetireModel, command::Drain, command::Stop>;

// A queue of commands, first in, first out. Thread-safe; one thread takes.
class Inbox {
 public:
  // `clock` is not owned.
  explicit Inbox(const Clock* clock) : clock_(clock) {}

  // Dropped after Close.
  void Push(Command command);
  // Wakes a waiting Take without a command.
  void Poke();

  // Waits until there is a command, a poke, or `deadline` has passed; then appends all
  // commands to `commands`.
  void Take(absl::Time deadline, std::vector<Command>* commands);
  // Appends the remaining commands and drops later ones.
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
