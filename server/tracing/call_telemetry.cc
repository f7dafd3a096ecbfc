#include "server/tracing/call_telemetry.h"

#include <vector>

#include "absl/random/random.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "server/telemetry/logging.h"
#include "server/tracing/call_spans.h"
#include "server/tracing/request_id.h"

namespace chorale {
namespace {

// One for each thread: seeding one takes longer than all else here.
absl::BitGenRef ThreadRandom() {
  thread_local absl::BitGen random;
  return random;
}

}  // namespace

CallIdentity CallTelemetry::Begin(const std::optional<absl::string_view>& request_id,
                                  const std::optional<absl::string_view>& traceparent) const {
  CallIdentity identity;
  identity.request_id = TakeRequestId(request_id, ThreadRandom());
  std::optional<TraceParent> parent;
  if (traceparent.has_value()) parent = ParseTraceparent(*traceparent);
  identity.trace = MakeTraceContext(parent, root_sample_rate_, ThreadRandom());
  if (exporter_ == nullptr) identity.trace.sampled = false;
  return identity;
}

void CallTelemetry::End(const CallRecord& record, bool has_line) const {
  const absl::Duration slow_call = absl::Nanoseconds(slow_call_ns_.load());
  const bool slow = slow_call > absl::ZeroDuration() && record.end - record.arrival > slow_call;
  std::vector<LogField> fields = LogFieldsOf(record);
  if (slow) fields.push_back({"slow", true});
  if (has_line) LogEvent(slow ? spdlog::level::warn : spdlog::level::info, "request", fields);
  if (exporter_ == nullptr || !record.identity.trace.sampled) return;
  exporter_->Export(SpansOf(record, absl::Now() - Clock::Real()->Now(), ThreadRandom()));
}

}  // namespace chorale
