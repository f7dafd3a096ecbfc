// Spans as messages of OTLP, the OpenTelemetry protocol.
#ifndef CHORALE_SERVER_TRACING_OTLP_H_
#define CHORALE_SERVER_TRACING_OTLP_H_

#include <string>
#include <vector>

#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"
#include "server/tracing/span.h"

namespace chorale {

// The description of the process in every export.
struct TraceResource {
  std::string service_version;
  std::string instance_id;  // unique among all processes
};

// A new random UUID.
std::string MakeInstanceId();

// Always valid Protobuf, whatever bytes the attributes have.
opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest ToOtlp(
    const TraceResource& resource, const std::vector<Span>& spans);

}  // namespace chorale

#endif  // CHORALE_SERVER_TRACING_OTLP_H_
