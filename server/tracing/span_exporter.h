// Sends spans to a collector, by OTLP over gRPC.
#ifndef CHORALE_SERVER_TRACING_SPAN_EXPORTER_H_
#define CHORALE_SERVER_TRACING_SPAN_EXPORTER_H_

#include <grpcpp/client_context.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
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

// Spans wait in a bounded queue, from which one thread sends batches, one at a time. An export that
// fails is repeated when OTLP allows it (a collector that is away, too busy, or says when to come
// back), a few times with growing delays; then its spans are dropped. Spans for which there is no
// room are dropped at once. So a collector that is slow or away costs spans, and nothing else.
//
// The destructor sends what is queued, for flush_timeout at most, and repeats nothing: with a
// collector that is away it returns at once.
//
// Thread-safe.
class SpanExporter {
 public:
  // `dropped` is told how many spans were lost, on any thread; it must not block.
  SpanExporter(SpanExporterOptions options, std::function<void(int64_t)> dropped);
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  // The spans of one call: all of them are queued, or none. Does not block.
  void Export(std::vector<Span> spans);

 private:
  using Clock = std::chrono::steady_clock;
  using Request = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
  using TraceService = opentelemetry::proto::collector::trace::v1::TraceService;

  // How one attempt ended.
  struct Outcome {
    grpc::Status status;
    int64_t rejected = 0;  // spans that the collector did not take, of an attempt that succeeded
    bool repeat = false;
    absl::Duration delay = absl::ZeroDuration();  // until then, if the collector has named one
  };

  void Run();
  // Waits for spans. False when there are none left and no more will come.
  bool TakeBatch(std::vector<Span>* batch);
  void Send(const std::vector<Span>& batch);
  Outcome Attempt(const Request& request);
  // Returns false, without waiting to the end, if the exporter stops.
  bool WaitToRepeat(absl::Duration delay);
  void NoteOutcome(const grpc::Status& status);
  // Drops a batch that could not be sent; when the exporter stops, also what is queued.
  void GiveUp(size_t spans);

  const SpanExporterOptions options_;
  const std::function<void(int64_t)> dropped_;
  const std::unique_ptr<TraceService::Stub> stub_;
  bool failing_ = false;  // of the thread alone: the last attempt failed

  Mutex mutex_;
  CondVar changed_;
  std::deque<Span> queue_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* attempt_ ABSL_GUARDED_BY(mutex_) = nullptr;  // in progress
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;   // no more waiting, no repetition
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;  // no more attempts either
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;   // the thread is at its end
  std::thread thread_;                              // last: it uses all of the above
};

}  // namespace chorale

#endif  // CHORALE_SERVER_TRACING_SPAN_EXPORTER_H_
