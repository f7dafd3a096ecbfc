// What the GPU backend refuses before it serves, and what becomes of memory that is given back.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cuda/cuda_case.h"
#include "tests/engine/backends/test_model.h"

namespace chorale {
namespace {

class CudaMemoryTest : public CudaTest {
 protected:
  static CudaBackendOptions Options() {
    return {.threads = 1,
            .context_pool_bytes = 1 << 20,
            .buffer_pool_bytes = 8 << 20,
            .encode_pool_bytes = 1 << 20,
            .weights_bytes = 1 << 20,
            .workspace_bytes = 1 << 20};
  }
  static absl::Status AddModel(const CudaBackendOptions& options) {
    absl::StatusOr<std::unique_ptr<Backend>> backend = NewCudaBackend(options);
    Require(backend.ok(), "the GPU backend can be made");
    return (*backend)->AddModel(MakeTestModel({})).status();
  }
};

TEST_F(CudaMemoryTest, AModelForWhichAPartIsTooSmallIsRefusedWithTheNumbers) {
  EXPECT_TRUE(AddModel(Options()).ok());
  const auto refused = [](int64_t CudaBackendOptions::*part, const std::string& what) {
    CudaBackendOptions options = Options();
    options.*part = 1'024;
    const absl::Status status = AddModel(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << what;
    EXPECT_TRUE(absl::StrContains(status.message(), what)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "1024")) << status;
  };
  refused(&CudaBackendOptions::context_pool_bytes, "contexts");
  refused(&CudaBackendOptions::buffer_pool_bytes, "buffers");
  refused(&CudaBackendOptions::encode_pool_bytes, "encoding");
  refused(&CudaBackendOptions::weights_bytes, "weights");
  refused(&CudaBackendOptions::workspace_bytes, "workspace");
}

TEST_F(CudaMemoryTest, ABudgetBeyondTheDeviceIsRefusedWithTheNumbers) {
  CudaBackendOptions options = Options();
  options.context_pool_bytes = int64_t{1} << 50;
  const absl::Status status = NewCudaBackend(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "1125899906842624 for contexts")) << status;
}

}  // namespace
}  // namespace chorale
