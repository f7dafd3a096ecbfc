// The reactor of Sample: streams blocks of values to the client as the engine draws them.
#ifndef CHORALE_SERVER_RPC_SAMPLE_REACTOR_H_
#define CHORALE_SERVER_RPC_SAMPLE_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/api/call.h"
#include "engine/api/request.h"
#include "server/codec/response_encoder.h"
#include "server/rpc/reactor.h"
#include "server/rpc/service_environment.h"

namespace chorale {

// The engine thread appends blocks to a queue. One write is in flight at a time; when it is done,
// the queued blocks, up to kMessageBytes, become the next message. Values are acknowledged to the
// engine after their write, and the engine stops drawing while too many are unacknowledged: so
// EngineOptions::max_unacknowledged_values bounds the queue. With whole paths, the values of the
// tiles that are complete at the same time may exceed it.
//
// Finishes when
//   - the server does not admit the call, or the request is malformed: at once;
//   - the engine has succeeded, and all blocks and then the summary are written;
//   - the engine has ended the stream with UNAVAILABLE, because the server shuts down or its device
//     has failed: when all blocks are written;
//   - the engine has ended the stream with another error: as soon as no write is in flight. Queued
//     blocks are dropped. If the reason is a client that reads nothing: at once.
// A disconnected client, a failed write and the client watchdog all cancel the engine's call, which
// then ends with CANCELLED.
//
// The engine shares ownership, as of any observer. Thread-safe.
class SampleReactor final : public Reactor, public SampleObserver {
 public:
  // Blocks are batched up to this size; larger blocks are split.
  static constexpr int64_t kMessageBytes = 256 << 10;

  SampleReactor(const ServiceEnvironment& environment, grpc::CallbackServerContext* context);
  ~SampleReactor() override;

 private:
  enum class Next { kWait, kWrite, kFinish };
  // The outcome of the engine's call.
  struct End {
    absl::Status status;
    SampleSummary summary;
  };

  absl::Status Begin(grpc::ByteBuffer* bytes);
  void Attach(std::shared_ptr<Call> call);

  using Reactor::OnDone;
  // SampleObserver, on the engine thread.
  void OnBlock(SampleBlock block) override;
  void OnDone(const absl::Status& status, const SampleSummary& summary) override;

  // Schedules Pump on the reply executor unless it is active.
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts the next write, finishes the call, or becomes inactive. At most one runs at a time.
  void Pump();
  // The next action of Pump. Fills response_ for kWrite, sets *status for kFinish.
  Next Decide(absl::Status* status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves queued blocks into response_; returns the number of values.
  int64_t FillResponse() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::shared_ptr<SampleReactor> Self();

  void Received(grpc::ByteBuffer* bytes) override;
  void ReceivedAll() override;
  void OnWriteDone(bool ok) override;
  void Cancelled() override;
  void Ended() override;

  Precision precision_ = Precision::kFloat64;  // of the request; constant since Begin
  v1::SampleResponse response_;                // the running Pump's
  grpc::ByteBuffer response_bytes_;            // gRPC's while a write is in flight

  Mutex mutex_;
  // Whether Pump is scheduled, is running, or will run after the write in flight.
  bool pumping_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;  // a write is in flight
  // The stream is cancelled or a write has failed: no more writes are possible.
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool summary_written_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<SampleBlock> blocks_ ABSL_GUARDED_BY(mutex_);
  int64_t paths_of_front_written_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t values_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  // Values written before Attach.
  int64_t values_unacknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t values_written_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<End> end_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_SAMPLE_REACTOR_H_
