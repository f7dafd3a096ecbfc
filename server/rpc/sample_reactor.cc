#include "server/rpc/sample_reactor.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "server/codec/request_decoder.h"
#include "server/codec/response_encoder.h"
#include "server/rpc/message.h"

namespace chorale {

SampleReactor::SampleReactor(const ServiceEnvironment& environment,
                             grpc::CallbackServerContext* context)
    : Reactor(Method::kSample, environment, context) {
  environment.metrics->StreamStarted();
}

SampleReactor::~SampleReactor() = default;

std::shared_ptr<SampleReactor> SampleReactor::Self() {
  return std::static_pointer_cast<SampleReactor>(shared_from_this());
}

void SampleReactor::Received(grpc::ByteBuffer* bytes) {
  if (absl::Status status = Begin(bytes); !status.ok()) Finish(status);
}

void SampleReactor::ReceivedAll() {
  Finish(absl::InvalidArgumentError("the call has no request message"));
}

absl::Status SampleReactor::Begin(grpc::ByteBuffer* bytes) {
  absl::StatusOr<SampleRequest> request;
  {
    v1::SampleRequest message;
    RETURN_IF_ERROR(ParseMessage(bytes, &message));
    request = DecodeSample(message, environment().limits->Get());
  }
  RETURN_IF_ERROR(request.status());
  if (request->float32_values) precision_ = Precision::kFloat32;
  CallContext call = live().MakeCallContext(Self(), request->context);
  live().Note("paths", request->paths);
  live().Note("query_rows", request->query_rows.rows());
  if (request->validate_only) {
    live().Note("validate_only", true);
  } else {
    RETURN_IF_ERROR(live().TakeValues(request->paths, request->query_rows.rows()));
  }
  Attach(environment().engine->Sample(std::move(call), *std::move(request), Self()));
  return absl::OkStatus();
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
  // A stream that was refused after values were drawn is one that its client does not read: the
  // write in flight would end when the client chooses.
  if (absl::IsResourceExhausted(status) && writing_) {
    (void)environment().replies->TryRun(
        live().client(), [reference = std::make_shared<CallReference>(live().reference()), status] {
          reference->Cancel(GRPC_STATUS_RESOURCE_EXHAUSTED, std::string(status.message()).c_str());
        });
  }
  Wake();
}

void SampleReactor::Wake() {
  if (pumping_) return;
  pumping_ = true;
  // The task owns the reactor, because the engine may drop its observer before the task runs. The
  // executor is unbounded, so TryRun succeeds.
  (void)environment().replies->TryRun(live().client(), [self = Self()] { self->Pump(); });
}

void SampleReactor::Pump() {
  absl::Status status;
  Next next;
  {
    MutexLock lock(&mutex_);
    next = Decide(&status);
    if (next == Next::kWait) pumping_ = false;
    writing_ = next == Next::kWrite;
    if (next == Next::kFinish) live().Note("values", values_written_);
  }
  if (next == Next::kWrite) {
    response_bytes_ = SerializeMessage(response_);
    live().NoteWrite();
    live().BeginClientWait();
    StartWrite(&response_bytes_);
  } else if (next == Next::kFinish) {
    Finish(status);
  }
}

SampleReactor::Next SampleReactor::Decide(absl::Status* status) {
  const bool failed = end_.has_value() && !end_->status.ok();
  // What was drawn before the server had to stop is as good as ever.
  if (broken_ || (failed && !absl::IsUnavailable(end_->status))) {
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
  if (failed) *status = end_->status;
  if (failed || summary_written_) return Next::kFinish;
  summary_written_ = true;
  EncodeSummary(end_->summary, response_.mutable_summary());
  live().Note("seed", end_->summary.seed);
  return Next::kWrite;
}

int64_t SampleReactor::FillResponse() {
  v1::SampleBlocks* blocks = response_.mutable_blocks();
  blocks->Clear();
  int64_t bytes = 0;
  int64_t values = 0;
  while (!blocks_.empty()) {
    const SampleBlock& block = blocks_.front();
    const int64_t bytes_per_path = std::max<int64_t>(1, EncodedBytesPerPath(block, precision_));
    const int64_t rest = block.paths - paths_of_front_written_;
    int64_t room = (kMessageBytes - bytes) / bytes_per_path;
    if (room == 0 && bytes == 0) room = 1;  // paths are not split
    const int64_t paths = std::min(rest, room);
    if (paths == 0) break;
    EncodeBlock(block, paths_of_front_written_, paths, precision_, blocks->add_blocks());
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
  live().EndClientWait();
  std::shared_ptr<Call> call;
  int64_t values;
  {
    MutexLock lock(&mutex_);
    writing_ = false;
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

void SampleReactor::Cancelled() {
  std::shared_ptr<Call> call;
  {
    MutexLock lock(&mutex_);
    broken_ = true;
    call = call_;
  }
  if (call != nullptr) call->Cancel();
}

void SampleReactor::Ended() {
  environment().metrics->StreamEnded();
  std::shared_ptr<Call> call;  // may own this, as its observer
  {
    MutexLock lock(&mutex_);
    call = std::move(call_);
  }
}

}  // namespace chorale
