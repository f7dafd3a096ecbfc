#include "server/tracing/call_spans.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace chorale {
namespace {

constexpr char kRpcService[] = "chorale.v1.Chorale";

// What a server's span says is the server's failure; the rest is between the client and its
// request.
bool IsFailure(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

class SpanBuilder {
 public:
  SpanBuilder(const CallRecord& record, absl::Duration wall_minus_clock, absl::BitGenRef random)
      : record_(record), offset_(wall_minus_clock), random_(random) {}

  void AddServer() {
    const TraceContext& trace = record_.identity.trace;
    Span span;
    span.trace_id = trace.trace_id;
    span.span_id = trace.span_id;
    span.parent_id = trace.parent_id;
    span.parent_is_remote = trace.parent_id != SpanId{};
    span.kind = Span::Kind::kServer;
    span.name = absl::StrCat(kRpcService, "/", MethodName(record_.method));
    span.start = record_.arrival + offset_;
    span.end = record_.end + offset_;
    span.failed = IsFailure(record_.code);
    span.attributes = {{"rpc.system", "grpc"},
                       {"rpc.service", kRpcService},
                       {"rpc.method", MethodName(record_.method)},
                       {"rpc.grpc.status_code", static_cast<int64_t>(record_.code)}};
    for (LogField& field : LogFieldsOf(record_)) {
      // The span has these in fields of its own.
      if (field.key == "method" || field.key == "code" || field.key == "seconds" ||
          field.key == "trace_id") {
        continue;
      }
      span.attributes.push_back({absl::StrCat("chorale.", field.key), std::move(field.value)});
    }
    spans_.push_back(std::move(span));
  }

  // Nothing if the stage took no time that can be told.
  void AddStage(const char* name, absl::Time start, absl::Time end) {
    if (end < start) return;
    Span span;
    span.trace_id = record_.identity.trace.trace_id;
    span.span_id = MakeSpanId(random_);
    span.parent_id = record_.identity.trace.span_id;
    span.name = name;
    span.start = start + offset_;
    span.end = end + offset_;
    spans_.push_back(std::move(span));
  }

  void AddEngineStages(const CallReport& report) {
    // An early end cuts the stage in which it came.
    absl::Time queued_since = report.arrival;
    if (report.context_began.has_value()) {
      AddStage("queue", report.arrival, *report.context_began);
      AddStage(report.context == CallReport::Context::kRestored ? "restore" : "encode",
               *report.context_began, report.context_ready.value_or(report.end));
      if (!report.context_ready.has_value()) return;
      queued_since = *report.context_ready;
    }
    // WarmContext is not admitted: it ends when its context is resident.
    if (record_.method == Method::kWarmContext && report.context_ready.has_value()) return;
    AddStage("queue", queued_since, report.admitted.value_or(report.end));
    if (!report.admitted.has_value()) return;
    AddStage("steps", *report.admitted, report.end);
    if (report.first_step.has_value()) {
      spans_.back().events.push_back({"first_step", *report.first_step + offset_});
    }
  }

  std::vector<Span> Take() { return std::move(spans_); }

 private:
  const CallRecord& record_;
  const absl::Duration offset_;
  absl::BitGenRef random_;
  std::vector<Span> spans_;
};

}  // namespace

std::vector<Span> SpansOf(const CallRecord& record, absl::Duration wall_minus_clock,
                          absl::BitGenRef random) {
  SpanBuilder builder(record, wall_minus_clock, random);
  builder.AddServer();
  if (record.report.has_value()) builder.AddEngineStages(*record.report);
  if (record.write_began.has_value()) builder.AddStage("write", *record.write_began, record.end);
  return builder.Take();
}

}  // namespace chorale
