#include "server/tracing/call_record.h"

namespace chorale {

std::vector<LogField> IdentityFields(const CallIdentity& identity) {
  return {{"request_id", identity.request_id}, {"trace_id", ToHex(identity.trace.trace_id)}};
}

std::vector<LogField> LogFieldsOf(const CallRecord& record) {
  std::vector<LogField> fields = {{"method", std::string(MethodName(record.method))},
                                  {"code", absl::StatusCodeToString(record.code)},
                                  {"seconds", absl::ToDoubleSeconds(record.end - record.arrival)}};
  for (LogField& field : IdentityFields(record.identity)) fields.push_back(std::move(field));
  fields.push_back({"tenant", record.tenant});
  fields.insert(fields.end(), record.notes.begin(), record.notes.end());
  if (!record.report.has_value()) return fields;
  const CallReport& report = *record.report;
  if (!report.model.empty()) {
    fields.push_back({"model", report.model});
    fields.push_back({"rows", report.context_rows});
  }
  fields.push_back({"queue_seconds", absl::ToDoubleSeconds(report.queued)});
  fields.push_back({"encode_seconds", absl::ToDoubleSeconds(report.encoding)});
  if (report.first_step.has_value()) {
    fields.push_back(
        {"first_step_seconds", absl::ToDoubleSeconds(*report.first_step - report.arrival)});
  }
  return fields;
}

}  // namespace chorale
