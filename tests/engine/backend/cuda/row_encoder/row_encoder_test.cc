// Row encoders on the GPU against the float64 model and the CPU's, and that a row's encoding does
// not depend on how rows are shared out.
#include "engine/backend/cuda/row_encoder/row_encoder.h"

#include <iostream>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "engine/model/model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/reference_row_encoder.h"
#include "tests/engine/backend/test_model.h"
#include "tests/golden/golden_table.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale {
namespace {

using kernels::cuda::Memory;
using kernels::cuda::MemoryKind;

// An encoder on a device of its own.
class LoadedEncoder {
 public:
  static constexpr int64_t kMemory = 32 << 20;

  explicit LoadedEncoder(const Model& model) : width_(model.config.d_model), device_(OpenDevice()) {
    cuda::WeightBlob blob;
    auto encoder = cuda::MakeDeviceRowEncoder(model, blob);
    Require(encoder.ok(), "the encoder can be made");
    encoder_ = *std::move(encoder);
    Require(blob.MoveToDevice(*device_).ok(), "the weights have room");
    memory_ = Allocate(kMemory);
    out_ = Allocate(kMemory);
  }

  // With that much memory for a launch; with none said, as much as there is.
  std::shared_ptr<const RowEncoderState> Fit(const FeatureMatrix& x, const std::vector<float>& y,
                                             int64_t bytes = kMemory) {
    const auto fit = encoder_->NewFit(x, y, Workspace(bytes));
    for (int64_t task = 0; task < fit->tasks(); ++task) fit->RunTask(task);
    return fit->Finish();
  }

  std::vector<float> Encode(const RowEncoderState& state, const FeatureMatrix& x, int64_t first,
                            int64_t rows, int64_t bytes = kMemory) {
    std::vector<float> encodings(rows * width_);
    encoder_->Encode(state, x, first, rows, out_.At<float>(), Workspace(bytes));
    device_->Download(encodings.data(), out_.At<float>(),
                      static_cast<int64_t>(encodings.size() * sizeof(float)));
    device_->Wait();
    EXPECT_TRUE(device_->status().ok()) << device_->status();
    return encodings;
  }

  int64_t least_bytes() const { return encoder_->memory_bytes(); }

 private:
  static std::unique_ptr<cuda::Device> OpenDevice() {
    auto device = cuda::Device::Open({.context_pool_bytes = 1,
                                      .buffer_pool_bytes = 1,
                                      .encode_pool_bytes = 1,
                                      .weights_bytes = 16 << 20,
                                      .workspace_bytes = 1});
    Require(device.ok(), "there is a device");
    return *std::move(device);
  }
  static Memory Allocate(int64_t bytes) {
    auto memory = Memory::Allocate(MemoryKind::kDevice, bytes, "a test");
    Require(memory.ok(), "there is memory");
    return *std::move(memory);
  }
  cuda::LaunchWorkspace Workspace(int64_t bytes) { return {*device_, memory_.At<char>(), bytes}; }

  const int64_t width_;
  const std::unique_ptr<cuda::Device> device_;
  std::unique_ptr<const cuda::DeviceRowEncoder> encoder_;
  Memory memory_, out_;
};

Model DefaultModel() {
  absl::StatusOr<Model> model = LoadModel(DefaultModelFolder());
  Require(model.ok(), "the default model can be loaded");
  return *std::move(model);
}

class CudaRowEncoderTest : public under_test::BackendTest {
 protected:
  // Returns the worst error of an element; encodings are normalised.
  static double WorstError(const Model& model, int64_t context_rows, int64_t rows,
                           int64_t features) {
    const FeatureMatrix context = MakeFeatures(context_rows, features, 1);
    const FeatureMatrix query_rows = MakeFeatures(rows, features, 2);
    const std::vector<float> y = MakeValues(context_rows, 3);
    LoadedEncoder encoder(model);
    const std::vector<float> encodings =
        encoder.Encode(*encoder.Fit(context, y), query_rows, 0, rows);
    double worst = 0;
    const reference::Rows expected = reference::EncodeRows(model, context, y, query_rows);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t d = 0; d < model.config.d_model; ++d) {
        const double error = encodings[row * model.config.d_model + d] - expected[row][d];
        if (!(std::abs(error) <= worst)) worst = std::abs(error);
      }
    }
    std::cout << "worst error of an encoding's element " << worst << "\n";
    return worst;
  }
};

TEST_F(CudaRowEncoderTest, FeatureMean) {
  EXPECT_LE(WorstError(MakeTestModel({}), 3, 20, 5), 1e-6);
}

// Biases take away what the first row has, but for the last bits of float64. In the least memory
// there is room for 64 cells: some rows, or a part of one.
TEST_F(CudaRowEncoderTest, FeatureMeanHasTheBitsOfTheCpu) {
  for (const int64_t features : {1, 20, 150}) {
    const FeatureMatrix x = MakeFeatures(70, features, 1);
    const std::vector<float> y = MakeValues(x.rows, 3);
    Model model = MakeTestModel({.d_model = 264});
    auto& weights = std::get<FeatureMeanWeights>(model.row_encoder);
    weights.bias.assign(weights.bias.size(), 0.0f);
    const auto on_cpu = [&](int64_t rows) {
      std::vector<float> encodings(rows * model.config.d_model);
      const auto encoder = MakeRowEncoder(model);
      const auto fit = encoder->NewFit(x, y);
      for (int64_t task = 0; task < fit->tasks(); ++task) fit->RunTask(task);
      encoder->Encode(*fit->Finish(), x, 0, rows, encodings.data());
      return encodings;
    };
    const std::vector<float> first = on_cpu(1);
    for (size_t d = 0; d < first.size(); ++d) weights.bias[d] = -first[d];

    LoadedEncoder encoder(model);
    const auto state = encoder.Fit(x, y);
    for (const int64_t bytes : {LoadedEncoder::kMemory, encoder.least_bytes()}) {
      EXPECT_THAT(encoder.Encode(*state, x, 0, x.rows, bytes),
                  kernels::TensorBitsEqual(on_cpu(x.rows)))
          << features << " features in " << bytes << " bytes";
    }
  }
}

// Bounds are about twice the measured errors.
TEST_F(CudaRowEncoderTest, NarrowCellAttention) {
  const Model model = MakeTestModel({.row_encoder = "cell_attention", .d_model = 64});
  EXPECT_LE(WorstError(model, 40, 21, 6), 0.03);
  EXPECT_LE(WorstError(model, 1, 1, 1), 0.03);
  EXPECT_LE(WorstError(model, 5, 3, 12), 0.03);
}

TEST_F(CudaRowEncoderTest, CellAttentionOfTheDefaultModel) {
  const Model model = DefaultModel();
  EXPECT_LE(WorstError(model, 50, 18, 20), 0.04);
  EXPECT_LE(WorstError(model, 150, 17, 3), 0.04);
}

TEST_F(CudaRowEncoderTest, AnySharingOutGivesTheSameBits) {
  const Model model = MakeTestModel({.row_encoder = "cell_attention", .d_model = 64});
  const FeatureMatrix x = MakeFeatures(2'100, 2, 1);  // two chunks of a summary
  const std::vector<float> y = MakeValues(x.rows, 3);
  LoadedEncoder encoder(model);
  const auto state = encoder.Fit(x, y);
  const std::vector<float> all = encoder.Encode(*state, x, 0, 50);
  const auto rows = [&](int64_t first, int64_t n) {
    return std::vector<float>(all.begin() + first * 64, all.begin() + (first + n) * 64);
  };
  EXPECT_EQ(encoder.Encode(*state, x, 7, 30), rows(7, 30));
  EXPECT_EQ(encoder.Encode(*state, x, 49, 1), rows(49, 1));
  // As few rows at a time as there may be.
  const auto frugal = encoder.Fit(x, y, encoder.least_bytes());
  EXPECT_EQ(encoder.Encode(*frugal, x, 0, 50, encoder.least_bytes()), all);
}

TEST_F(CudaRowEncoderTest, RefusesWhatTheKernelsAreNotBuiltFor) {
  const Model good = MakeTestModel({.row_encoder = "cell_attention", .d_model = 64});
  const auto message = [&](auto change) {
    Model model = good;
    change(model.config);
    cuda::WeightBlob blob;
    const absl::Status status = cuda::MakeDeviceRowEncoder(model, blob).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](ModelConfig& c) { c.encoder_width = 128; }),
              HasSubstr("encoder_width 128"));
  EXPECT_THAT(message([](ModelConfig& c) { c.encoder_heads = 8; }), HasSubstr("8 encoder_heads"));
  EXPECT_THAT(message([](ModelConfig& c) { c.encoder_induced_points = 17; }),
              HasSubstr("17 encoder_induced_points"));
  EXPECT_THAT(message([](ModelConfig& c) { c.max_features = 257; }), HasSubstr("max_features 257"));
}

TEST_F(CudaRowEncoderTest, SharedMemoryFitsTheSmallestDevice) {
  constexpr int kOfComputeCapability8 = 163 << 10;
  cuda::WeightBlob blob;
  for (const Model& model : {DefaultModel(), MakeTestModel({.row_encoder = "cell_attention"})}) {
    const auto encoder = cuda::MakeDeviceRowEncoder(model, blob);
    ASSERT_TRUE(encoder.ok());
    EXPECT_GT((*encoder)->shared_bytes(), 64 << 10);
    EXPECT_LE((*encoder)->shared_bytes(), kOfComputeCapability8);
  }
}

TEST_F(CudaRowEncoderTest, RefusesAModelForWhichAWorkspaceIsTooSmall) {
  BackendDriver driver = under_test::NewDriver({.workspace_bytes = 64 << 10});
  const Model model = MakeTestModel({.row_encoder = "cell_attention", .d_model = 64});
  const absl::Status status = driver.backend().AddModel(model).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("row encoder"));
}

}  // namespace
}  // namespace chorale
