// The common part of the reactors of all methods.
#ifndef CHORALE_SERVER_RPC_REACTOR_H_
#define CHORALE_SERVER_RPC_REACTOR_H_

#include <google/protobuf/message.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/rpc/live_call.h"
#include "server/rpc/service_environment.h"

namespace chorale {

// To gRPC every method is a stream of bytes in both directions; the derived class determines how
// many messages it reads and writes. A call has a reactor from its headers on, so that the server
// tracks it, and limits the time of its client, while its request is still arriving.
//
// Reads: one is in flight at a time. Each read passes its message to Received, which may start the
// next read. Decoding a large message can take a tenth of a second; Received then runs on an
// executor, so that the threads of gRPC are free for small messages. If a call is cancelled while
// its message waits for the executor, the call is finished and the message freed immediately: a
// client may have as many bytes in the queue as it has calls in flight, and no more.
//
// Keeps itself alive until OnDone; other users share ownership. gRPC runs one callback at a time,
// except Cancelled.
class Reactor : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                public std::enable_shared_from_this<Reactor> {
 public:
  // The reactor to return to gRPC: reads its first message, or finishes if the server does not
  // admit the call.
  static Reactor* Start(std::shared_ptr<Reactor> reactor);

  // Thread-safe.
  LiveCall& live() { return live_; }
  void Finish(const absl::Status& status) { live_.Finish(status); }
  // Sends the message and OK, or an error if the message exceeds the size limit, or the client has
  // too many unread responses. REQUIRES: no write is in flight; called at most once.
  void FinishWith(const google::protobuf::Message& response);

 protected:
  Reactor(Method method, const ServiceEnvironment& environment,
          grpc::CallbackServerContext* context);

  const ServiceEnvironment& environment() const { return environment_; }

  // REQUIRES: no read is in flight; the call is not finished.
  void Read();

  // Receives a message. The method may move from it; it is freed afterwards.
  virtual void Received(grpc::ByteBuffer* bytes) = 0;
  // The client has sent its last message.
  virtual void ReceivedAll() = 0;
  // The request cannot be received: Cancelled if the client disconnected or cancelled the call
  // before its last message, ResourceExhausted if a message is too large. Finishes the call with
  // `status`.
  virtual void FailToReceive(const absl::Status& status) { Finish(status); }
  // The call was cancelled, its deadline has passed, or its connection has ended. Called at most
  // once, on any thread, at any time before Ended.
  virtual void Cancelled() = 0;
  // No callback follows: release the owner of the reactor.
  virtual void Ended() {}

  void OnDone() final;  // gRPC's

 private:
  // The executor for large messages decodes messages from this size on.
  static constexpr size_t kLargeMessageBytes = 64 << 10;

  void OnReadDone(bool ok) final;
  void OnSendInitialMetadataDone(bool ok) final;
  void OnCancel() final;

  // Allows the connection to send another message.
  void AllowMessage() const;
  // Ends the call if its message waits for the executor.
  void GiveUpTurn();

  const ServiceEnvironment& environment_;
  LiveCall live_;
  const std::optional<std::string> endpoint_;  // PeerAddress::endpoint
  std::shared_ptr<Reactor> self_;              // set before gRPC knows the reactor, taken in OnDone
  std::atomic<bool> waits_for_turn_{false};    // the thread that sets it to false owns request_
  std::atomic<bool> cancelled_{false};
  grpc::ByteBuffer request_;   // gRPC's while a read is in flight
  grpc::ByteBuffer response_;  // bytes of FinishWith's response
  int64_t reply_bytes_ = 0;    // reserved for them in ServiceEnvironment::reply_memory
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_REACTOR_H_
