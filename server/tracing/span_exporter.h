// Sends spans to a collector, by OTLP over gRPC.
#ifndef CHORALE_SERVER_TRACING_SPAN_EXPORTER_H_
#define CHORALE_SERVER_TRACING_SPAN_EXPORTER_H_

#include <grpcpp/client_context.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "server/tracing/otlp.h"
#include "server/tracing/span.h"

namespace chorale {

struct SpanExporterOptions {
  std::string endpoint;  // host:port, without encryption
  TraceResource resource;
  size_t max_queued = 8192;  // spans, those being sent aside
  size_t max_batch = 512;    // spans in one export
  absl::Duration batch_delay = absl::Seconds(1);
  absl::Duration export_timeout = absl::Seconds(10);
  absl::Duration first_backoff = absl::Seconds(1);  // then doubled
  absl::Duration max_backoff = absl::Seconds(10);
  int max_attempts = 5;  // of a batch
  absl::Duration flush_timeout = absl::Seconds(2);
};

// Spans wait in a bounded queue, from which one thread sends batches, one at a time. A failed
// export is retried if OTLP permits it (the collector is unreachable or busy, or requests a retry),
// a few times with growing delays; then its spans are dropped. If the queue is full, spans are
// dropped immediately. Therefore a slow or unreachable collector costs only spans.
//
// The destructor sends the queued spans, for flush_timeout at most, without retries: if the
// collector is unreachable, it returns immediately.
//
// Thread-safe.
class SpanExporter {
 public:
  // `dropped` receives the number of dropped spans, on any thread; it must not block.
  SpanExporter(const Clock* clock, SpanExporterOptions options,
               std::function<void(int64_t)> dropped);
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  // The spans of one call: all of them are queued, or none. Does not block.
  void Export(std::vector<Span> spans);

 private:
  using Request = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
  using TraceService = opentelemetry::proto::collector::trace::v1::TraceService;

  // The result of an attempt.
  struct Outcome {
    grpc::Status status;
    int64_t rejected = 0;  // spans that the collector rejected in a successful attempt
    bool repeat = false;
    absl::Duration delay = absl::ZeroDuration();  // before a retry, if the collector has set it
  };

  void Run();
  // Waits for spans. False when none are left and no more will be added.
  bool TakeBatch(std::vector<Span>* batch);
  void Send(const std::vector<Span>& batch);
  Outcome Attempt(const Request& request);
  // Returns false, without waiting to the end, if the exporter stops.
  bool WaitToRepeat(absl::Duration delay);
  void NoteOutcome(const grpc::Status& status);
  // Drops a batch that could not be sent; when the exporter stops, also the queued spans.
  void GiveUp(size_t spans);

  const Clock* const clock_;
  const SpanExporterOptions options_;
  const std::function<void(int64_t)> dropped_;
  const std::unique_ptr<TraceService::Stub> stub_;
  bool failing_ = false;  // used by the thread only: the last attempt failed

  Mutex mutex_;
  CondVar changed_;
  std::deque<Span> queue_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* attempt_ ABSL_GUARDED_BY(mutex_) = nullptr;  // in progress
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;                   // no more waiting, no retries
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;                  // no more attempts
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;                   // the thread has ended
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace chorale

#endif  // CHORALE_SERVER_TRACING_SPAN_EXPORTER_H_
