// The GPU backend library and the HTTP endpoint in one process: the library's thread-local
// variables are large, and an endpoint whose threads had small stacks did not serve beside it.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backend/cuda_plugin/load_cuda_backend.h"
#include "gtest/gtest.h"
#include "server/net/listen.h"
#include "server/telemetry/http_endpoint.h"
#include "server/telemetry/prometheus_metrics.h"
#include "tests/end_to_end/prometheus_page.h"

namespace chorale {
namespace {

TEST(CudaLibraryTest, MetricsAreServedOnceItIsOpen) {
  const std::string path = CHORALE_CUDA_LIBRARY_OF_BUILD;
  if (path.empty()) GTEST_SKIP() << "built without CUDA";
  // The library stays loaded, with or without a GPU.
  const absl::Status opened = cuda::LoadBackend(path, {}).status();
  ASSERT_TRUE(opened.ok() || absl::IsUnavailable(opened)) << opened;
  const PrometheusMetrics metrics;
  absl::StatusOr<std::vector<FileDescriptor>> sockets = ListenOn("127.0.0.1:0");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  const int port = LocalPort(sockets->front());
  const absl::StatusOr<std::unique_ptr<HttpEndpoint>> endpoint =
      HttpEndpoint::Start(std::move(sockets->front()), {.collectables = {metrics.registry()},
                                                        .alive = [] { return true; },
                                                        .ready = [] { return true; }});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const auto page = end_to_end::PrometheusPage::Fetch(absl::StrCat("127.0.0.1:", port));
  EXPECT_TRUE(page.ok());
  EXPECT_EQ(page.Value("chorale_streams_live"), 0);
}

}  // namespace
}  // namespace chorale
