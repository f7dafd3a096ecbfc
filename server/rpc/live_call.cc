#include "server/rpc/live_call.h"

#include <utility>

#include "absl/time/clock.h"
#include "server/codec/status_mapping.h"

namespace chorale {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Clock::time_point kNoWait = Clock::time_point::max();

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const std::chrono::system_clock::time_point deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteFuture();
  return absl::FromChrono(deadline);
}

}  // namespace

LiveCall::LiveCall(Method method, grpc::CallbackServerContext* context, ReactorRegistry* registry,
                   PrometheusMetrics* metrics, std::function<void(grpc::Status)> finish)
    : method_(method),
      context_(context),
      registry_(registry),
      metrics_(metrics),
      finish_(std::move(finish)),
      deadline_(DeadlineOf(*context)),
      arrival_(Clock::now()),
      client_wait_start_(kNoWait) {
  admission_ = registry_->Add(this);
}

void LiveCall::Finish(const absl::Status& status) {
  absl::Status last = status;
  // When a deadline passes, gRPC also cancels the call. Which of the two stopped the work is a
  // race; report the deadline, as the client does.
  if (status.code() == absl::StatusCode::kCancelled && absl::Now() >= deadline_) {
    last = absl::DeadlineExceededError("the deadline passed");
  }
  {
    MutexLock lock(&mutex_);
    if (finished_) return;
    finished_ = true;
    status_ = last;
  }
  BeginClientWait();
  // This may destroy the call.
  finish_(ToGrpcStatus(last));
}

void LiveCall::BeginClientWait() { client_wait_start_ = Clock::now(); }
void LiveCall::EndClientWait() { client_wait_start_ = kNoWait; }
Clock::time_point LiveCall::client_wait_start() const { return client_wait_start_; }

void LiveCall::Note(std::string key, decltype(LogField::value) value) {
  MutexLock lock(&mutex_);
  notes_.push_back({std::move(key), std::move(value)});
}

void LiveCall::Done() {
  const absl::Duration duration = absl::FromChrono(Clock::now() - arrival_);
  std::vector<LogField> fields;
  {
    MutexLock lock(&mutex_);
    metrics_->RequestDone(method_, status_.code(), duration);
    fields = {{"method", std::string(MethodName(method_))},
              {"code", absl::StatusCodeToString(status_.code())},
              {"seconds", absl::ToDoubleSeconds(duration)}};
    fields.insert(fields.end(), notes_.begin(), notes_.end());
  }
  LogEvent(spdlog::level::info, "request", fields);
  registry_->Remove(this);
}

}  // namespace chorale
