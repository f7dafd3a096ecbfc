// A collector of traces, over a real socket.
#ifndef CHORALE_TESTS_SERVER_TRACING_FAKE_COLLECTOR_H_
#define CHORALE_TESTS_SERVER_TRACING_FAKE_COLLECTOR_H_

#include <grpcpp/server.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "tests/support/reserved_port.h"

namespace chorale {

// Thread-safe but for Start and Stop.
class FakeCollector final
    : public opentelemetry::proto::collector::trace::v1::TraceService::Service {
 public:
  using Request = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
  using Response = opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
  using Span = opentelemetry::proto::trace::v1::Span;
  // What to answer to an export; `attempt` counts from 1. Spans are kept if it is OK.
  using Answer = std::function<grpc::Status(int64_t attempt, Response* response)>;

  FakeCollector() { Start(); }
  ~FakeCollector() override { Stop(); }

  // Always on the same port.
  void Start();
  void Stop();

  std::string endpoint() const;
  void SetAnswer(Answer answer);
  // While held, exports are not answered.
  void Hold();
  void Release();

  int64_t attempts() const;
  int64_t batches() const;          // taken
  std::vector<Span> spans() const;  // of all batches taken
  Request last_request() const;
  // False when there are not as many in time.
  bool WaitForSpans(size_t count) const;
  bool WaitForAttempts(int64_t count) const;

 private:
  grpc::Status Export(grpc::ServerContext* context, const Request* request,
                      Response* response) override;

  const ReservedPort port_;
  std::unique_ptr<grpc::Server> server_;
  mutable Mutex mutex_;
  CondVar released_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  Answer answer_ ABSL_GUARDED_BY(mutex_);
  int64_t attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);
};

// The attribute's value as text; "(none)" if there is none.
std::string AttributeOf(const FakeCollector::Span& span, const std::string& key);

}  // namespace chorale

#endif  // CHORALE_TESTS_SERVER_TRACING_FAKE_COLLECTOR_H_
