// Which memory budgets the GPU backend refuses, and what freed memory holds.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/require.h"
#include "engine/backend/cuda/backend.h"
#include "engine/backend/cuda/device/device.h"
#include "gtest/gtest.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

class CudaMemoryTest : public under_test::BackendTest {
 protected:
  static cuda::MemoryBudget Options() {
    return {.context_pool_bytes = 1 << 20,
            .buffer_pool_bytes = 8 << 20,
            .encode_pool_bytes = 1 << 20,
            .weights_bytes = 2 << 20,
            .workspace_bytes = 1 << 20};
  }
  static absl::Status AddModel(const cuda::MemoryBudget& options) {
    absl::StatusOr<std::unique_ptr<Backend>> backend = cuda::NewBackend({.memory = options});
    Require(backend.ok(), "the GPU backend can be made");
    return (*backend)->AddModel(MakeTestModel({})).status();
  }
};

TEST_F(CudaMemoryTest, AModelForWhichAPartIsTooSmallIsRefusedWithTheNumbers) {
  EXPECT_TRUE(AddModel(Options()).ok());
  const auto refused = [](int64_t cuda::MemoryBudget::*part, const std::string& what) {
    cuda::MemoryBudget options = Options();
    options.*part = 1'024;
    const absl::Status status = AddModel(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << what;
    EXPECT_TRUE(absl::StrContains(status.message(), what)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "1024")) << status;
  };
  refused(&cuda::MemoryBudget::context_pool_bytes, "contexts");
  refused(&cuda::MemoryBudget::buffer_pool_bytes, "buffers");
  refused(&cuda::MemoryBudget::encode_pool_bytes, "encoding");
  refused(&cuda::MemoryBudget::weights_bytes, "weights");
  refused(&cuda::MemoryBudget::workspace_bytes, "workspace");
}

TEST_F(CudaMemoryTest, AModelThatIsRemovedMakesRoomForAnother) {
  cuda::MemoryBudget budget = Options();
  budget.weights_bytes = 3 << 20;
  absl::StatusOr<std::unique_ptr<Backend>> backend = cuda::NewBackend({.memory = budget});
  ASSERT_TRUE(backend.ok()) << backend.status();
  std::vector<std::shared_ptr<const BackendModel>> models;
  const auto add = [&] {
    absl::StatusOr<std::shared_ptr<const BackendModel>> model =
        (*backend)->AddModel(MakeTestModel({}));
    if (model.ok()) models.push_back(*model);
    return model.status();
  };
  absl::Status full;
  while ((full = add()).ok()) continue;
  ASSERT_GE(models.size(), 2u) << full;
  EXPECT_EQ(add().code(), absl::StatusCode::kResourceExhausted);
  // Whichever it is: the gaps are found.
  for (const size_t removed : {size_t{0}, models.size() - 1, models.size() / 2}) {
    (*backend)->RemoveModel(*models[removed]);
    models.erase(models.begin() + static_cast<ptrdiff_t>(removed));
    EXPECT_TRUE(add().ok()) << removed;
    EXPECT_EQ(add().code(), absl::StatusCode::kResourceExhausted);
  }
  models.clear();
}

TEST_F(CudaMemoryTest, ABudgetBeyondTheDeviceIsRefusedWithTheNumbers) {
  cuda::MemoryBudget options = Options();
  options.context_pool_bytes = int64_t{1} << 50;
  const absl::Status status = cuda::NewBackend({.memory = options}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "1073741824 MiB for contexts")) << status;
}

TEST_F(CudaMemoryTest, HostMemoryThatCannotBeHadIsRefusedWithTheNumbers) {
  cuda::MemoryBudget options = Options();
  options.host_context_pool_bytes = int64_t{1} << 50;
  const absl::Status status = cuda::NewBackend({.memory = options}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "1125899906842624 bytes")) << status;
}

// A context that was evicted to the host, and whose range was reused, gives the same bits when it
// is restored to another range.
void ExpectSameResultsOfARestoredContext(const TestModelOptions& options) {
  const ModelCase model_case = {
      .options = options, .context_rows = 100, .query_rows = 3, .paths = 4};
  BackendDriver driver = under_test::NewDriver();
  Backend& backend = driver.backend();
  const LoadedCase loaded(model_case, driver);
  const auto before = loaded.Density(model_case.Values());
  driver.Run(before.get());

  const PoolRange kv = loaded.context()->kv;
  const PoolRange host = {.offset = 512, .bytes = kv.bytes};
  const auto save = backend.NewContextCopy(kv, host, CopyDirection::kToHost);
  driver.Run(save.get());
  backend.ReleaseContext(kv);
  ResidentContext restored = *loaded.context();
  restored.kv = driver.TakeContextRange(restored.model->config(), restored.shape);
  ASSERT_NE(restored.kv.offset, kv.offset);
  const auto restore = backend.NewContextCopy(restored.kv, host, CopyDirection::kToDevice);
  driver.Run(restore.get());

  TileSpec tile = loaded.Tile();
  tile.context = std::make_shared<const ResidentContext>(restored);
  const auto after = driver.NewDensity(tile, model_case.Values());
  driver.Run(after.get());
  EXPECT_EQ(after->log_densities(), before->log_densities());
  // Its former range is cleared: it gives other results.
  const auto cleared = loaded.Density(model_case.Values());
  driver.Run(cleared.get());
  EXPECT_NE(cleared->log_densities(), before->log_densities());
}

TEST_F(CudaMemoryTest, ARestoredContextGivesTheSameResults) {
  ExpectSameResultsOfARestoredContext({});
}
TEST_F(CudaMemoryTest, SoDoesOneOfAModelOfTheWideForm) {
  ExpectSameResultsOfARestoredContext({.n_layers = 1, .d_ff = 4'160});
}

class CudaDeviceTest : public under_test::BackendTest {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (IsSkipped()) return;
    absl::StatusOr<std::unique_ptr<cuda::Device>> device =
        cuda::Device::Open({.context_pool_bytes = 64 << 20,
                            .buffer_pool_bytes = 1 << 20,
                            .encode_pool_bytes = 1 << 20,
                            .weights_bytes = 2 << 20,
                            .workspace_bytes = 1 << 20});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  // Bytes of which none is zero.
  static std::vector<char> Pattern(int64_t bytes) {
    std::vector<char> pattern(bytes);
    for (int64_t i = 0; i < bytes; ++i) pattern[i] = static_cast<char>(1 + i % 251 % 127);
    return pattern;
  }
  std::vector<char> Read(const PoolRange& range) {
    std::vector<char> bytes(range.bytes);
    device_->Download(bytes.data(), device_->ContextAt(range), range.bytes);
    device_->Wait();
    return bytes;
  }

  std::unique_ptr<cuda::Device> device_;
};

TEST_F(CudaDeviceTest, AFreedContextIsZeroAndItsNeighboursStay) {
  const PoolRange all = {.offset = 0, .bytes = 3 * 4'096};
  std::vector<char> expected = Pattern(all.bytes);
  device_->Upload(device_->ContextAt(all), expected.data(), all.bytes);
  device_->ClearContext({.offset = 4'096, .bytes = 4'096});
  std::fill_n(expected.begin() + 4'096, 4'096, 0);
  EXPECT_EQ(Read(all), expected);
  EXPECT_TRUE(device_->status().ok());
}

// More than the staging memory holds, in pieces that do not divide it.
TEST_F(CudaDeviceTest, CopiesOfAnySizeArrive) {
  const PoolRange all = {.offset = 0, .bytes = (40 << 20) + 3};
  std::vector<char> bytes = Pattern(all.bytes);
  const std::vector<char> expected = bytes;
  int64_t offset = 0;
  for (int64_t size = 1; offset < all.bytes; offset += size, size = size * 5 + 1) {
    size = std::min(size, all.bytes - offset);
    device_->Upload(device_->ContextAt({.offset = offset, .bytes = size}), bytes.data() + offset,
                    size);
    std::fill_n(bytes.begin() + offset, size, 0);  // allowed as soon as Upload returns
  }
  EXPECT_TRUE(Read(all) == expected);
}

}  // namespace
}  // namespace chorale
