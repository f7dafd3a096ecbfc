// Which models get the unfused form, and what happens when cuBLASLt cannot be used. That their
// results are right is for the suite of all backends.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/require.h"
#include "engine/backend/cuda/backend.h"
#include "engine/backend/cuda/kernel_shape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/test_model.h"
#include "tests/kernels/cuda/gemm/cublaslt_path.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;

constexpr int kSharedBytes = 227 << 10;      // of compute capability 9.0
constexpr int kSmallSharedBytes = 99 << 10;  // of 8.6 and 8.9

bool IsFused(const TestModelOptions& options, int shared_bytes = kSharedBytes) {
  return cuda::KernelShape(MakeTestModel(options).config, {.shared_bytes_per_block = shared_bytes})
      .fused;
}

TEST(KernelShapeTest, TheFormFollowsFromTheSizes) {
  EXPECT_TRUE(IsFused({}));
  EXPECT_TRUE(
      IsFused({.d_model = 512, .n_heads = 8, .n_kv_heads = 8, .n_layers = 1, .d_ff = 1'024}));
  EXPECT_FALSE(IsFused({.d_model = 576, .n_heads = 9, .n_kv_heads = 9, .n_layers = 1}))
      << "rows are too wide";
  EXPECT_FALSE(IsFused({.n_layers = 1, .d_ff = 4'104})) << "too many hidden units";
  const TestModelOptions largest = {.d_model = 512,
                                    .n_heads = 16,
                                    .n_kv_heads = 16,
                                    .n_layers = 1,
                                    .d_ff = 4'096,
                                    .num_components = 250};
  const TestModelOptions many = {.n_layers = 1, .num_components = 240};
  for (const TestModelOptions& options : {largest, many}) {
    EXPECT_TRUE(IsFused(options));
    EXPECT_FALSE(IsFused(options, kSmallSharedBytes)) << "too little shared memory";
  }
}

TEST(KernelShapeTest, RefusesWhatNoFormHolds) {
  const auto message = [](const TestModelOptions& options, int shared_bytes = kSharedBytes) {
    const ModelConfig config = MakeTestModel(options).config;
    const kernels::cuda::DeviceProperties device = {.shared_bytes_per_block = shared_bytes};
    return std::string(cuda::KernelShape(config, device).Check(config, device).message());
  };
  EXPECT_EQ(message({.d_model = 2'048, .n_heads = 16, .n_kv_heads = 1, .n_layers = 0}), "");
  EXPECT_THAT(message({.d_model = 2'056, .n_heads = 1, .n_kv_heads = 1, .n_layers = 0}),
              HasSubstr("d_model 2056; supported: multiples of 8 up to 2048"));
  EXPECT_THAT(message({.n_layers = 0, .d_ff = 8'200}),
              HasSubstr("d_ff 8200; supported: up to 8192"));
  const TestModelOptions many = {.n_layers = 1, .num_components = 250};
  EXPECT_EQ(message(many), "");
  EXPECT_THAT(message(many, kSmallSharedBytes),
              AllOf(HasSubstr("num_components 250; supported: fewer"),
                    HasSubstr("a block of this device has 101376")));
}

class WideModelTest : public under_test::BackendTest {
 protected:
  static constexpr int64_t kMiB = 1 << 20;

  static std::unique_ptr<Backend> NewBackend(const std::string& cublaslt,
                                             int64_t workspace_bytes = 16 * kMiB) {
    absl::StatusOr<std::unique_ptr<Backend>> backend =
        cuda::NewBackend({.memory = {.context_pool_bytes = kMiB,
                                     .buffer_pool_bytes = 8 * kMiB,
                                     .encode_pool_bytes = kMiB,
                                     .weights_bytes = 16 * kMiB,
                                     .workspace_bytes = workspace_bytes},
                          .cublaslt = cublaslt});
    Require(backend.ok(), "the GPU backend can be made");
    return *std::move(backend);
  }

  const Model wide_ = MakeTestModel({.n_layers = 1, .d_ff = 4'160});
  const Model fused_ = MakeTestModel();
};

TEST_F(WideModelTest, BothFormsAreServedBesideEachOther) {
  const std::unique_ptr<Backend> backend = NewBackend(CublasLtPath());
  const auto wide = backend->AddModel(wide_);
  if (absl::IsUnavailable(wide.status())) GTEST_SKIP() << wide.status();
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ((*wide)->form(), "unfused");
  EXPECT_THAT((*wide)->kv_format(), AllOf(HasSubstr("cuBLASLt 1"), HasSubstr(", sums ")));
  const auto fused = backend->AddModel(fused_);
  ASSERT_TRUE(fused.ok()) << fused.status();
  EXPECT_EQ((*fused)->form(), "fused");
  EXPECT_EQ((*fused)->kv_format(), "");
}

TEST_F(WideModelTest, WithoutTheLibraryOnlyTheFusedFormIsServed) {
  const std::unique_ptr<Backend> backend = NewBackend("/nowhere/libcublasLt.so.13");
  const absl::Status status = backend->AddModel(wide_).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("a model with d_model 32 and d_ff 4160 requires cuBLASLt"),
                    HasSubstr("/nowhere/libcublasLt.so.13"), HasSubstr("--cublaslt")));
  EXPECT_TRUE(backend->AddModel(fused_).ok());
}

// Else it would be left out, as if the library were all that it needs.
TEST_F(WideModelTest, WhatNoFormHoldsIsRefusedAlsoWithoutTheLibrary) {
  const std::unique_ptr<Backend> backend = NewBackend("/nowhere/libcublasLt.so.13");
  const absl::Status status =
      backend->AddModel(MakeTestModel({.n_layers = 0, .d_ff = 8'200})).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST_F(WideModelTest, AWorkspaceThatHoldsNoTileIsAnErrorWithTheNumbers) {
  const std::unique_ptr<Backend> backend = NewBackend(CublasLtPath(), kMiB);
  const absl::Status status = backend->AddModel(wide_).status();
  if (absl::IsUnavailable(status)) GTEST_SKIP() << status;
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("1048576"));
}

// All of it is taken when a model is added, the library's included. Nobody else may use the GPU.
TEST_F(WideModelTest, ServingTakesNoMoreMemoryOfTheGpuThanLoading) {
  if (under_test::LinkedDevice() == under_test::Device::kEmulator) {
    GTEST_SKIP() << "the emulator does not know what is taken";
  }
  const absl::Status status = NewBackend(CublasLtPath())->AddModel(wide_).status();
  if (absl::IsUnavailable(status)) GTEST_SKIP() << status;
  BackendDriver driver = under_test::NewDriver();
  const std::shared_ptr<const BackendModel> model = driver.AddModel(wide_);
  const std::vector<DeviceMemoryPart> loaded = driver.backend().DeviceMemory();
  const auto context = driver.Encode(model, MakeFeatures(70, 3, 1), MakeValues(70, 2), 1'000);
  TileSpec tile;
  tile.context = context;
  tile.query_rows = driver.EncodeRows(context, MakeFeatures(4, 3, 3));
  tile.paths = 5;
  const auto decode = driver.NewDecode(tile, 1, 0, {});
  const auto density = driver.NewDensity(tile, MakeValues(5 * 4, 4));
  const auto predict = driver.NewPredict(context, tile.query_rows, 0, 4);
  driver.RunAll({decode.get(), density.get(), predict.get()}, 2);
  const std::vector<DeviceMemoryPart> serving = driver.backend().DeviceMemory();
  ASSERT_EQ(serving.size(), loaded.size());
  for (size_t i = 0; i < loaded.size(); ++i) {
    EXPECT_EQ(serving[i].bytes, loaded[i].bytes) << loaded[i].part;
  }
}

}  // namespace
}  // namespace chorale
