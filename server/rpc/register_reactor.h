// The reactor of RegisterContext and CreateContext: receives a dataset, in chunks or in a single
// message, and registers it.
#ifndef CHORALE_SERVER_RPC_REGISTER_REACTOR_H_
#define CHORALE_SERVER_RPC_REGISTER_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "server/codec/dataset_assembler.h"
#include "server/rpc/byte_budget.h"
#include "server/rpc/reactor.h"
#include "server/rpc/service_environment.h"

namespace chorale {

// Each chunk is validated and added before the next read, which limits how fast a client can send.
// After the last chunk, registration blocks on the disk: it runs on the blocking executor. The
// message of CreateContext is validated and added as the only chunk.
//
// Finishes when
//   - the server does not admit the call: at once;
//   - a message is invalid or too large, or the registration memory is full: without further reads;
//   - the client disconnects, stalls or its deadline passes before its last message: nothing is
//     registered;
//   - the engine has registered the dataset or has returned an error.
//
// The fields below the line belong to the running callback, and after the last read to the task on
// the blocking executor.
class RegisterReactor final : public Reactor {
 public:
  // `method`: kRegisterContext or kCreateContext.
  RegisterReactor(Method method, const ServiceEnvironment& environment,
                  grpc::CallbackServerContext* context);

 private:
  absl::Status Take(grpc::ByteBuffer* bytes);
  template <typename Request>
  absl::Status Assemble(grpc::ByteBuffer* bytes);
  // Registers the dataset on the blocking executor.
  void Submit();
  // On the blocking executor.
  void Register();
  absl::StatusOr<v1::RegisterContextResponse> RegisterNow();
  // Frees the call's memory, then finishes it.
  void ReleaseAndFinish(const absl::Status& status);
  // Before the client sees the end of the call, so that its next call finds the memory free.
  void Release();

  void Received(grpc::ByteBuffer* bytes) override;
  void ReceivedAll() override;
  void FailToReceive(const absl::Status& status) override { ReleaseAndFinish(status); }
  void Cancelled() override;

  const bool streams_;  // RegisterContext
  std::atomic<bool> cancelled_{false};
  // -----
  std::optional<DatasetAssembler> assembler_;
  std::optional<ByteReservation> memory_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_REGISTER_REACTOR_H_
