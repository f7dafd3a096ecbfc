#include "server/tracing/span_exporter.h"

#include <grpc/support/time.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/random/random.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

std::shared_ptr<grpc::Channel> ConnectToCollector(const SpanExporterOptions& options) {
  grpc::ChannelArguments arguments;
  // gRPC waits up to two minutes between two tries to connect. A collector that is back should be
  // found as soon as there is something to send again.
  const auto milliseconds = [](absl::Duration time) {
    return static_cast<int>(absl::ToInt64Milliseconds(time));
  };
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, milliseconds(options.first_backoff));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, milliseconds(options.first_backoff));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, milliseconds(options.max_backoff));
  return grpc::CreateCustomChannel(options.endpoint, grpc::InsecureChannelCredentials(), arguments);
}

std::optional<absl::Duration> RetryDelayOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::RetryInfo retry;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const auto& detail : details.details()) {
    if (!detail.UnpackTo(&retry)) continue;
    return absl::Seconds(retry.retry_delay().seconds()) +
           absl::Nanoseconds(retry.retry_delay().nanos());
  }
  return std::nullopt;
}

// As OTLP says. A collector that is out of resources is asked again only if it says when.
bool MayRepeat(grpc::StatusCode code, bool has_delay) {
  switch (code) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DATA_LOSS:
      return true;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return has_delay;
    default:
      return false;
  }
}

}  // namespace

SpanExporter::SpanExporter(const Clock* clock, SpanExporterOptions options,
                           std::function<void(int64_t)> dropped)
    : clock_(clock),
      options_(std::move(options)),
      dropped_(std::move(dropped)),
      stub_(TraceService::NewStub(ConnectToCollector(options_))),
      thread_([this] { Run(); }) {}

SpanExporter::~SpanExporter() {
  const absl::Time end = clock_->Now() + options_.flush_timeout;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
    while (!finished_ && clock_->Now() < end) clock_->WaitUntil(end, &changed_, &mutex_);
    abandoned_ = true;
    if (attempt_ != nullptr) attempt_->TryCancel();
  }
  thread_.join();
}

void SpanExporter::Export(std::vector<Span> spans) {
  {
    MutexLock lock(&mutex_);
    if (queue_.size() + spans.size() <= options_.max_queued) {
      const bool first = queue_.empty();
      std::move(spans.begin(), spans.end(), std::back_inserter(queue_));
      // In between, the thread waits for more in any case.
      if (first || queue_.size() >= options_.max_batch) changed_.NotifyAll();
      return;
    }
  }
  dropped_(static_cast<int64_t>(spans.size()));
}

void SpanExporter::Run() {
  std::vector<Span> batch;
  while (TakeBatch(&batch)) Send(batch);
  MutexLock lock(&mutex_);
  finished_ = true;
  changed_.NotifyAll();
}

bool SpanExporter::TakeBatch(std::vector<Span>* batch) {
  batch->clear();
  MutexLock lock(&mutex_);
  while (queue_.empty() && !stopping_) changed_.Wait(&mutex_);
  const absl::Time end = clock_->Now() + options_.batch_delay;
  while (queue_.size() < options_.max_batch && !stopping_ && clock_->Now() < end) {
    clock_->WaitUntil(end, &changed_, &mutex_);
  }
  const auto first = queue_.begin();
  const auto last = first + static_cast<int64_t>(std::min(queue_.size(), options_.max_batch));
  std::move(first, last, std::back_inserter(*batch));
  queue_.erase(first, last);
  return !batch->empty();
}

void SpanExporter::Send(const std::vector<Span>& batch) {
  const Request request = ToOtlp(options_.resource, batch);
  absl::BitGen random;
  absl::Duration backoff = options_.first_backoff;
  for (int attempt = 1;; ++attempt) {
    const Outcome outcome = Attempt(request);
    NoteOutcome(outcome.status);
    if (outcome.status.ok()) {
      if (outcome.rejected > 0) dropped_(outcome.rejected);
      return;
    }
    // Not all servers of a collector that was away should come back in the same moment.
    const absl::Duration delay = std::max(outcome.delay, backoff * absl::Uniform(random, 0.5, 1.0));
    if (!outcome.repeat || attempt == options_.max_attempts || !WaitToRepeat(delay)) {
      GiveUp(batch.size());
      return;
    }
    backoff = std::min(2 * backoff, options_.max_backoff);
  }
}

SpanExporter::Outcome SpanExporter::Attempt(const Request& request) {
  grpc::ClientContext context;
  context.set_deadline(
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(options_.export_timeout), GPR_TIMESPAN));
  {
    MutexLock lock(&mutex_);
    if (abandoned_) return {grpc::Status(grpc::StatusCode::CANCELLED, "the server has stopped")};
    attempt_ = &context;
  }
  opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse response;
  Outcome outcome;
  outcome.status = stub_->Export(&context, request, &response);
  {
    MutexLock lock(&mutex_);
    attempt_ = nullptr;
  }
  outcome.rejected = response.partial_success().rejected_spans();
  const std::optional<absl::Duration> delay = RetryDelayOf(outcome.status);
  outcome.repeat = MayRepeat(outcome.status.error_code(), delay.has_value());
  // A delay without bounds would keep the exporter from sending anything.
  outcome.delay =
      std::clamp(delay.value_or(absl::ZeroDuration()), absl::ZeroDuration(), absl::Minutes(1));
  return outcome;
}

bool SpanExporter::WaitToRepeat(absl::Duration delay) {
  const absl::Time end = clock_->Now() + delay;
  MutexLock lock(&mutex_);
  while (!stopping_ && clock_->Now() < end) clock_->WaitUntil(end, &changed_, &mutex_);
  return !stopping_;
}

void SpanExporter::NoteOutcome(const grpc::Status& status) {
  const bool failed = !status.ok();
  if (failed == failing_) return;  // one line for each time that it changes
  failing_ = failed;
  if (failed) {
    LogEvent(spdlog::level::warn, "trace_export_failed",
             {{"endpoint", options_.endpoint},
              {"grpc_code", int64_t{status.error_code()}},
              {"reason", status.error_message()}});
  } else {
    LogEvent(spdlog::level::info, "trace_export_recovered", {{"endpoint", options_.endpoint}});
  }
}

void SpanExporter::GiveUp(size_t spans) {
  {
    MutexLock lock(&mutex_);
    if (stopping_) {
      spans += queue_.size();
      queue_.clear();
    }
  }
  dropped_(static_cast<int64_t>(spans));
}

}  // namespace chorale
