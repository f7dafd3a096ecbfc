#include "server/rpc/sample_reactor.h"

#include <algorithm>
#include <utility>

#include "server/codec/request_decoder.h"
#include "server/codec/response_encoder.h"
#include "server/rpc/tenant.h"

namespace chorale {

SampleReactor* SampleReactor::Start(const ServiceEnvironment& environment,
                                    grpc::CallbackServerContext* context,
                                    const v1::SampleRequest& request) {
  auto reactor = std::shared_ptr<SampleReactor>(new SampleReactor(environment, context));
  reactor->self_ = reactor;
  reactor->Begin(context, request);
  return reactor.get();
}

SampleReactor::SampleReactor(const ServiceEnvironment& environment,
                             grpc::CallbackServerContext* context)
    : environment_(environment),
      live_(Method::kSample, context, environment.registry, environment.metrics,
            [this](grpc::Status status) { Finish(std::move(status)); }) {
  environment_.metrics->StreamStarted();
}

SampleReactor::~SampleReactor() = default;

void SampleReactor::Begin(grpc::CallbackServerContext* context, const v1::SampleRequest& message) {
  if (!live_.admission().ok()) {
    live_.Finish(live_.admission());
    return;
  }
  absl::StatusOr<SampleRequest> request = DecodeSample(message, environment_.limits);
  if (!request.ok()) {
    live_.Finish(request.status());
    return;
  }
  request->tenant = TenantOf(*context);
  request->deadline = live_.deadline();
  live_.Note("context", request->context);
  live_.Note("paths", request->paths);
  live_.Note("targets", request->targets.rows());
  Attach(environment_.engine->Sample(*std::move(request), self_));
}

void SampleReactor::Attach(std::shared_ptr<Call> call) {
  int64_t acknowledge;
  bool cancel;
  {
    MutexLock lock(&mutex_);
    call_ = call;
    acknowledge = std::exchange(values_unacknowledged_, 0);
    cancel = broken_;
  }
  if (acknowledge > 0) call->Acknowledge(acknowledge);
  if (cancel) call->Cancel();
}

void SampleReactor::OnBlock(SampleBlock block) {
  MutexLock lock(&mutex_);
  if (broken_) return;
  blocks_.push_back(std::move(block));
  Wake();
}

void SampleReactor::OnDone(const absl::Status& status, const SampleSummary& summary) {
  MutexLock lock(&mutex_);
  end_ = End{status, summary};
  Wake();
}

void SampleReactor::Wake() {
  if (pumping_) return;
  pumping_ = true;
  // The task owns the reactor, because the engine may drop its observer before the task runs. The
  // executor is unbounded, so TryRun succeeds.
  std::shared_ptr<SampleReactor> self = self_;
  (void)environment_.replies->TryRun([self = std::move(self)] { self->Pump(); });
}

void SampleReactor::Pump() {
  absl::Status status;
  Next next;
  {
    MutexLock lock(&mutex_);
    next = Decide(&status);
    if (next == Next::kWait) pumping_ = false;
    if (next == Next::kFinish) live_.Note("values", values_written_);
  }
  if (next == Next::kWrite) {
    live_.BeginClientWait();
    StartWrite(&response_);
  } else if (next == Next::kFinish) {
    live_.Finish(status);
  }
}

SampleReactor::Next SampleReactor::Decide(absl::Status* status) {
  if (broken_ || (end_.has_value() && !end_->status.ok())) {
    blocks_.clear();
    if (!end_.has_value()) return Next::kWait;  // until the engine's call ends
    // A broken stream is not a success, even if the engine had finished.
    *status = end_->status.ok() ? absl::CancelledError("the client disconnected") : end_->status;
    return Next::kFinish;
  }
  if (!blocks_.empty()) {
    values_in_flight_ = FillResponse();
    return Next::kWrite;
  }
  if (!end_.has_value()) return Next::kWait;
  if (summary_written_) return Next::kFinish;
  summary_written_ = true;
  EncodeSummary(end_->summary, response_.mutable_summary());
  live_.Note("seed", end_->summary.seed);
  return Next::kWrite;
}

int64_t SampleReactor::FillResponse() {
  v1::SampleBlocks* blocks = response_.mutable_blocks();
  blocks->Clear();
  int64_t bytes = 0;
  int64_t values = 0;
  while (!blocks_.empty()) {
    const SampleBlock& block = blocks_.front();
    const int64_t bytes_per_path = std::max<int64_t>(1, EncodedBytesPerPath(block));
    const int64_t rest = block.paths - paths_of_front_written_;
    int64_t room = (kMessageBytes - bytes) / bytes_per_path;
    if (room == 0 && bytes == 0) room = 1;  // paths are not split
    const int64_t paths = std::min(rest, room);
    if (paths == 0) break;
    EncodeBlock(block, paths_of_front_written_, paths, blocks->add_blocks());
    bytes += paths * bytes_per_path;
    values += paths * block.steps;
    paths_of_front_written_ += paths;
    if (paths < rest) break;
    blocks_.pop_front();
    paths_of_front_written_ = 0;
  }
  return values;
}

void SampleReactor::OnWriteDone(bool ok) {
  live_.EndClientWait();
  std::shared_ptr<Call> call;
  int64_t values;
  {
    MutexLock lock(&mutex_);
    values = std::exchange(values_in_flight_, 0);
    call = call_;
    if (ok) {
      values_written_ += values;
      if (call == nullptr) values_unacknowledged_ += values;
    } else {
      broken_ = true;
    }
  }
  if (call != nullptr && ok && values > 0) call->Acknowledge(values);
  if (call != nullptr && !ok) call->Cancel();
  Pump();
}

void SampleReactor::OnCancel() {
  std::shared_ptr<Call> call;
  {
    MutexLock lock(&mutex_);
    broken_ = true;
    call = call_;
  }
  if (call != nullptr) call->Cancel();
}

void SampleReactor::OnDone() {
  environment_.metrics->StreamEnded();
  live_.Done();
  std::shared_ptr<Call> call;  // may own this, as its observer
  {
    MutexLock lock(&mutex_);
    call = std::move(call_);
  }
  call.reset();
  const std::shared_ptr<SampleReactor> last = std::move(self_);  // may delete this on return
}

}  // namespace chorale
