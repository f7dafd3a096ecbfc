// The GPU backend library and the metrics endpoint in one process: CivetWeb's threads have small
// stacks, which must also hold the library's thread-local variables.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/backend/cuda_plugin/load_cuda_backend.h"
#include "gtest/gtest.h"
#include "server/telemetry/metrics_endpoint.h"
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
  const absl::StatusOr<std::unique_ptr<MetricsEndpoint>> endpoint =
      MetricsEndpoint::Start("127.0.0.1:0", metrics);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const auto page =
      end_to_end::PrometheusPage::Fetch(absl::StrCat("127.0.0.1:", (*endpoint)->port()));
  EXPECT_TRUE(page.ok());
  EXPECT_EQ(page.Value("chorale_streams_live"), 0);
}

}  // namespace
}  // namespace chorale
