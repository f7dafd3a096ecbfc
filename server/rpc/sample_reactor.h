// The reactor of Sample: passes on blocks of values as the engine draws them.
#ifndef CHORALE_SERVER_RPC_SAMPLE_REACTOR_H_
#define CHORALE_SERVER_RPC_SAMPLE_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/engine.h"
#include "server/rpc/live_call.h"
#include "server/rpc/service_environment.h"

namespace chorale {

// The engine thread puts blocks into a queue. One write is in flight at a time; when it is done,
// everything that waits, up to kMessageBytes, becomes the next message. The engine hears of values
// only after their write, and stops drawing while too many are outstanding: so the queue is bounded
// by EngineOptions::max_unacknowledged_values.
//
// Finishes when
//   - the server does not take the call, or the request is malformed: at once;
//   - the engine has ended well, and all blocks and then the summary are written;
//   - the engine has ended with an error: as soon as no write is in flight. Blocks that wait are
//     dropped.
// A client that goes away, a failed write and the write watchdog all cancel the engine's call; the
// engine then ends with CANCELLED.
//
// Keeps itself alive until gRPC is done with the call; the engine's observer holds on to it too.
// Thread-safe.
class SampleReactor final : public grpc::ServerWriteReactor<v1::SampleResponse> {
 public:
  // Blocks are gathered up to this size, and a larger block is split.
  static constexpr int64_t kMessageBytes = 256 << 10;

  // The reactor to return to gRPC. The request is not used after Start.
  static SampleReactor* Start(const ServiceEnvironment& environment,
                              grpc::CallbackServerContext* context,
                              const v1::SampleRequest& request);

  ~SampleReactor() override;

 private:
  class Observer;
  enum class Next { kWait, kWrite, kFinish };
  // How the engine's call ended.
  struct End {
    absl::Status status;
    SampleSummary summary;
  };

  SampleReactor(const ServiceEnvironment& environment, grpc::CallbackServerContext* context);

  void Begin(grpc::CallbackServerContext* context, const v1::SampleRequest& request);
  void Attach(std::shared_ptr<Call> call);

  // From the engine thread.
  void OnBlock(SampleBlock block);
  void OnEnd(End end);

  // Starts the pump on the reply executor unless it runs.
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts the next write, or finishes, or stops until there is more. At most one runs at a time.
  void Pump();
  // What Pump does next: response_ is filled for a write, *status set to finish with.
  Next Decide(absl::Status* status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves what waits into response_; returns the number of values.
  int64_t FillResponse() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  const ServiceEnvironment environment_;
  LiveCall live_;
  std::shared_ptr<SampleReactor> self_;  // set before gRPC knows the reactor, taken in OnDone

  // Belongs to whoever pumps, and to gRPC while a write is in flight.
  v1::SampleResponse response_;

  Mutex mutex_;
  // Whether Pump is about to run, runs, or will run when the write in flight is done.
  bool pumping_ ABSL_GUARDED_BY(mutex_) = false;
  // Nothing can be written any more.
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool summary_written_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<SampleBlock> blocks_ ABSL_GUARDED_BY(mutex_);
  int64_t paths_of_front_written_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t values_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  // Written before the engine's call was attached.
  int64_t values_unacknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t values_written_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<End> end_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_SAMPLE_REACTOR_H_
