#include "server/rpc/live_call.h"

#include <grpc/support/time.h>

#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "server/codec/status_mapping.h"
#include "server/rpc/client_share.h"
#include "server/security/access_control.h"
#include "server/security/audit_log.h"
#include "server/tracing/request_id.h"

namespace chorale {
namespace {

constexpr int64_t kNoWait = std::numeric_limits<int64_t>::max();

// gRPC keeps deadlines on its monotonic clock; context.deadline() would convert it to a time of
// day, which may jump.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context, const Clock& clock) {
  const gpr_timespec deadline = context.raw_deadline();
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) {
    return absl::InfiniteFuture();
  }
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return clock.Now() + absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

// Nothing unless the client sent the key exactly once.
std::optional<absl::string_view> HeaderOf(const grpc::CallbackServerContext& context,
                                          const char* key) {
  const auto& headers = context.client_metadata();
  const auto [first, last] = headers.equal_range(key);
  if (first == last || std::next(first) != last) return std::nullopt;
  return absl::string_view(first->second.data(), first->second.size());
}

// Whether these are the errors with which a request is refused. Some of them also end a call whose
// work was done: a stream that nobody reads, a response that is too large.
bool IsRefusal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ||
         absl::IsFailedPrecondition(status) || absl::IsResourceExhausted(status);
}

}  // namespace

LiveCall::LiveCall(Method method, grpc::CallbackServerContext* context,
                   const ServiceEnvironment& environment, std::function<void(grpc::Status)> finish)
    : method_(method),
      context_(context),
      peer_(context->peer()),
      registry_(environment.registry),
      metrics_(environment.metrics),
      telemetry_(environment.telemetry),
      identity_(
          telemetry_->Begin(HeaderOf(*context, kRequestIdKey), HeaderOf(*context, "traceparent"))),
      clock_(environment.clock),
      access_(environment.access),
      finish_(std::move(finish)),
      deadline_(DeadlineOf(*context, *clock_)),
      arrival_(clock_->Now()),
      client_wait_start_(kNoWait) {
  caller_.tenant = std::string(kNoTenant);
  admission_ = Admit(environment);
  metrics_->RequestBegun(method_, caller_.tenant);
  if (admission_.ok()) admission_ = registry_->Add(this);
}

absl::Status LiveCall::Admit(const ServiceEnvironment& environment) {
  const PresentedCredentials presented = CredentialsOf(*context_, peer_);
  caller_.peer_host = presented.peer_host;
  ASSIGN_OR_RETURN(Caller caller, access_->Authenticate(presented, absl::Now(), &expired_token_));
  caller_ = std::move(caller);
  share_ = ShareOf(caller_, peer_);
  RETURN_IF_ERROR(AccessControl::Authorize(caller_, method_));
  ASSIGN_OR_RETURN(Quotas::CallSlot slot,
                   access_->quotas().BeginCall(caller_, environment.retry_delay));
  MutexLock lock(&mutex_);
  slot_ = std::move(slot);
  return absl::OkStatus();
}

CallContext LiveCall::MakeCallContext(std::shared_ptr<const void> owner,
                                      const std::string& context) {
  Note("context", context);
  Note("client", share_.client);
  return {
      .tenant = caller_.tenant,
      .share = share_,
      .max_resident_bytes = caller_.policy.quotas.resident_bytes,
      .deadline = deadline_,
      .report = [this, owner = std::move(owner)](const CallReport& report) { SetReport(report); }};
}

absl::Status LiveCall::TakeValues(int64_t a, int64_t b) {
  int64_t values = 0;
  if (__builtin_mul_overflow(a, b, &values)) values = std::numeric_limits<int64_t>::max();
  ASSIGN_OR_RETURN(const absl::Duration taken,
                   access_->quotas().TakeValues(caller_, values, clock_->Now()));
  MutexLock lock(&mutex_);
  values_taken_ = taken;
  return absl::OkStatus();
}

void LiveCall::CutShort(const absl::Status& status) {
  MutexLock lock(&mutex_);
  cut_short_ = status;
}

void LiveCall::Finish(const absl::Status& status) {
  absl::Status last = status;
  // When a deadline passes, gRPC also cancels the call. Which of the two stopped the work is a
  // race; report the deadline, as the client does.
  if (status.code() == absl::StatusCode::kCancelled && clock_->Now() >= deadline_) {
    last = absl::DeadlineExceededError("the deadline has passed");
  }
  // Before the client sees the end of the call, so that its next call finds the place free.
  Quotas::CallSlot slot;
  {
    MutexLock lock(&mutex_);
    if (finished_) return;
    finished_ = true;
    if (absl::IsCancelled(last) && !cut_short_.ok()) last = cut_short_;
    slot = std::move(slot_);
    if (const std::string quota = ExceededQuota(last); !quota.empty()) {
      metrics_->QuotaExceeded(method_, caller_.tenant, quota);
      notes_.push_back({"quota", quota});
    }
    const bool began = report_.has_value() && report_->admitted.has_value();
    if (IsRefusal(last) && !began) access_->quotas().Refund(caller_, values_taken_);
    status_ = last;
    if (!write_began_.has_value()) write_began_ = clock_->Now();
    // A proxy may send the call again as long as it has passed on no headers, so an error comes
    // without any: gRPC then sends its trailing metadata alone.
    if (last.ok()) {
      BeginHeaders();
    } else if (!headers_begun_) {
      context_->AddTrailingMetadata(kRequestIdKey, identity_.request_id);
    }
  }
  slot = {};
  BeginClientWait();
  // This may destroy the call.
  finish_(last.ok() ? grpc::Status::OK : ToGrpcStatus(last, IdentityFields(identity_)));
}

void LiveCall::BeginClientWait() { client_wait_start_ = absl::ToUnixNanos(clock_->Now()); }
void LiveCall::EndClientWait() { client_wait_start_ = kNoWait; }

absl::Time LiveCall::client_wait_start() const {
  const int64_t start = client_wait_start_;
  return start == kNoWait ? absl::InfiniteFuture() : absl::FromUnixNanos(start);
}

void LiveCall::SetReport(const CallReport& report) {
  MutexLock lock(&mutex_);
  report_ = report;
}

void LiveCall::BeginHeaders() {
  if (std::exchange(headers_begun_, true)) return;
  context_->AddInitialMetadata(kRequestIdKey, identity_.request_id);
}

void LiveCall::NoteHeaders() {
  MutexLock lock(&mutex_);
  BeginHeaders();
}

void LiveCall::NoteWrite() {
  MutexLock lock(&mutex_);
  if (!write_began_.has_value()) write_began_ = clock_->Now();
  BeginHeaders();
}

void LiveCall::Note(std::string key, decltype(LogField::value) value) {
  MutexLock lock(&mutex_);
  notes_.push_back({std::move(key), std::move(value)});
}

void LiveCall::Done() {
  const absl::Time end = clock_->Now();
  CallRecord record;
  record.method = method_;
  record.identity = identity_;
  record.tenant = caller_.tenant;
  record.arrival = arrival_;
  record.end = end;
  {
    MutexLock lock(&mutex_);
    record.code = status_.code();
    record.notes = std::move(notes_);
    record.report = std::move(report_);
    record.write_began = write_began_;
  }
  metrics_->RequestDone(method_, caller_.tenant, record.code, end - arrival_);
  const bool unknown =
      record.code == absl::StatusCode::kUnauthenticated && caller_.tenant == kNoTenant;
  const bool has_lines =
      !unknown || access_->refusal_lines().HasLine(caller_.peer_host, clock_->Now());
  telemetry_->End(record, has_lines);
  if (!has_lines) {
    registry_->Remove(this);
    return;
  }
  std::vector<LogField> about_call = IdentityFields(record.identity);
  about_call.insert(about_call.end(), record.notes.begin(), record.notes.end());
  Caller audited = caller_;
  if (!expired_token_.empty()) {
    audited.name = expired_token_;
    about_call.insert(about_call.begin(), {"reason", std::string("expired")});
  }
  AuditCall(method_, record.code, audited, about_call);
  registry_->Remove(this);
}

}  // namespace chorale
