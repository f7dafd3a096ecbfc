// The reactor of RegisterContext: receives a dataset in chunks and registers it.
#ifndef CHORALE_SERVER_RPC_REGISTER_REACTOR_H_
#define CHORALE_SERVER_RPC_REGISTER_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "chorale/v1/chorale.pb.h"
#include "server/codec/dataset_assembler.h"
#include "server/rpc/byte_budget.h"
#include "server/rpc/live_call.h"
#include "server/rpc/service_environment.h"

namespace chorale {

// One read is in flight at a time; each chunk is validated and added before the next read, which
// limits how fast a client can send. After the last chunk, registration blocks on the disk: it runs
// on the blocking executor.
//
// Finishes when
//   - the server does not admit the call: at once;
//   - a message is invalid or the registration memory is full: without further reads;
//   - the client disconnects, stalls or its deadline passes before its last message: nothing is
//     registered;
//   - the engine has registered the dataset or has returned an error.
//
// gRPC runs one callback at a time, except OnCancel. The fields below the line belong to the
// running callback, and after the last read to the task on the blocking executor.
class RegisterReactor final : public grpc::ServerReadReactor<v1::RegisterContextRequest> {
 public:
  // The reactor to return to gRPC, which owns the response until the call has finished.
  static RegisterReactor* Start(const ServiceEnvironment& environment,
                                grpc::CallbackServerContext* context,
                                v1::RegisterContextResponse* response);

 private:
  RegisterReactor(const ServiceEnvironment& environment, grpc::CallbackServerContext* context,
                  v1::RegisterContextResponse* response);

  void Read();
  absl::Status TakeMessage();
  // On the blocking executor.
  void Register();
  absl::Status RegisterNow();
  // Releases the call's memory, then finishes it.
  void ReleaseAndFinish(const absl::Status& status);

  void OnReadDone(bool ok) override;
  void OnSendInitialMetadataDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  const ServiceEnvironment environment_;
  const std::string tenant_;
  v1::RegisterContextResponse* const response_;
  LiveCall live_;
  std::shared_ptr<RegisterReactor> self_;  // set before gRPC knows the reactor, taken in OnDone
  std::atomic<bool> cancelled_{false};
  // -----
  v1::RegisterContextRequest message_;
  std::optional<DatasetAssembler> assembler_;
  std::optional<ByteReservation> memory_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_REGISTER_REACTOR_H_
