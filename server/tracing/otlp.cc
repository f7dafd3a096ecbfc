#include "server/tracing/otlp.h"

#include <cstdint>
#include <limits>
#include <variant>

#include "absl/random/random.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/utf8.h"

namespace chorale {
namespace {

namespace common = opentelemetry::proto::common::v1;
namespace otlp = opentelemetry::proto::trace::v1;

constexpr char kResourceName[] = "chorale";
constexpr char kScopeName[] = "chorale-server";

constexpr uint32_t kTraceIsSampled = 0x1;
constexpr uint32_t kRemoteIsKnown = 0x100;
constexpr uint32_t kParentIsRemote = 0x200;

// A collector refuses the whole batch for a string that is not UTF-8.
std::string Utf8(absl::string_view text) {
  return IsValidUtf8(text) ? std::string(text) : absl::CEscape(text);
}

struct SetAttributeValue {
  common::AnyValue* out;

  void operator()(bool value) const { out->set_bool_value(value); }
  void operator()(int64_t value) const { out->set_int_value(value); }
  void operator()(uint64_t value) const {
    // OTLP has no unsigned integers.
    if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      out->set_int_value(static_cast<int64_t>(value));
    } else {
      out->set_string_value(std::to_string(value));
    }
  }
  void operator()(double value) const { out->set_double_value(value); }
  void operator()(const std::string& value) const { out->set_string_value(Utf8(value)); }
};

void SetAttribute(const LogField& field, common::KeyValue* out) {
  out->set_key(Utf8(field.key));
  std::visit(SetAttributeValue{out->mutable_value()}, field.value);
}

template <typename Id>
std::string Bytes(const Id& id) {
  return std::string(reinterpret_cast<const char*>(id.data()), id.size());
}

void FillSpan(const Span& span, otlp::Span* out) {
  out->set_trace_id(Bytes(span.trace_id));
  out->set_span_id(Bytes(span.span_id));
  if (span.parent_id != SpanId{}) out->set_parent_span_id(Bytes(span.parent_id));
  out->set_flags(kTraceIsSampled | kRemoteIsKnown | (span.parent_is_remote ? kParentIsRemote : 0));
  out->set_name(Utf8(span.name));
  out->set_kind(span.kind == Span::Kind::kServer ? otlp::Span::SPAN_KIND_SERVER
                                                 : otlp::Span::SPAN_KIND_INTERNAL);
  out->set_start_time_unix_nano(absl::ToUnixNanos(span.start));
  out->set_end_time_unix_nano(absl::ToUnixNanos(span.end));
  for (const LogField& field : span.attributes) SetAttribute(field, out->add_attributes());
  for (const Span::Event& event : span.events) {
    otlp::Span::Event* const added = out->add_events();
    added->set_time_unix_nano(absl::ToUnixNanos(event.time));
    added->set_name(Utf8(event.name));
  }
  if (span.failed) out->mutable_status()->set_code(otlp::Status::STATUS_CODE_ERROR);
}

}  // namespace

std::string MakeInstanceId() {
  absl::BitGen random;
  // RFC 9562, version 4: all bits are random but those of version and variant.
  const uint64_t high = (absl::Uniform<uint64_t>(random) & ~uint64_t{0xf000}) | 0x4000;
  const uint64_t low = absl::Uniform<uint64_t>(random) >> 2 | uint64_t{1} << 63;
  return absl::StrFormat("%08x-%04x-%04x-%04x-%012x", high >> 32, high >> 16 & 0xffff,
                         high & 0xffff, low >> 48, low & 0xffff'ffff'ffff);
}

opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest ToOtlp(
    const TraceResource& resource, const std::vector<Span>& spans) {
  opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest request;
  otlp::ResourceSpans* const out = request.add_resource_spans();
  for (const LogField& field : {LogField{"service.name", kResourceName},
                                LogField{"service.version", resource.service_version},
                                LogField{"service.instance.id", resource.instance_id}}) {
    SetAttribute(field, out->mutable_resource()->add_attributes());
  }
  otlp::ScopeSpans* const scope = out->add_scope_spans();
  scope->mutable_scope()->set_name(kScopeName);
  scope->mutable_scope()->set_version(Utf8(resource.service_version));
  for (const Span& span : spans) FillSpan(span, scope->add_spans());
  return request;
}

}  // namespace chorale
