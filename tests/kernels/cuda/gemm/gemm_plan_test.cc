// GEMMs by cuBLASLt, or by what stands in for it on the emulator: opening it, the choice of
// algorithms, and results.
#include "kernels/cuda/gemm/gemm_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/gemm/gemm_library.h"
#include "kernels/cuda/layout/matrix.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/cuda/gemm/cublaslt_path.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

using ::testing::HasSubstr;

std::vector<uint16_t> ToBits(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (const float v : values) bits.push_back(ToBf16(v));
  return bits;
}

class GemmTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    absl::StatusOr<std::unique_ptr<GemmLibrary>> library = GemmLibrary::Open(CublasLtPath());
    if (!library.ok()) GTEST_SKIP() << library.status();
    library_ = *std::move(library);
    scratch_ = DeviceArray<char>(64 << 20);
  }

  GemmScratch Scratch() const { return {scratch_.data(), static_cast<int64_t>(scratch_.size())}; }

  std::unique_ptr<GemmLibrary> library_;
  DeviceArray<char> scratch_;
};

// A random GEMM, its float64 result, and the bits of a launch of its first rows.
class Product {
 public:
  Product(const GemmShape& shape, int64_t rows)
      : shape_(shape),
        rows_(rows),
        x_(ToBits(RandomTensor(rows * shape.inputs, 1))),
        weight_(ToBits(RandomTensor(int64_t{shape.outputs} * shape.inputs, 2, 0.1f))),
        before_(RandomTensor(rows * shape.outputs, 3)),
        device_x_(x_),
        device_weight_(weight_) {}

  std::vector<float> Run(GemmLibrary& library, const GemmPlan& plan, int64_t rows,
                         Stream stream) const {
    const bool bf16 = shape_.result == GemmResult::kBf16;
    const DeviceArray<float> y(before_);
    const DeviceArray<uint16_t> rounded(before_.size());
    ExpectSuccess(LaunchGemm(library, plan,
                             {.x = device_x_.data(),
                              .weight = device_weight_.data(),
                              .y = bf16 ? static_cast<void*>(rounded.data()) : y.data(),
                              .rows = rows},
                             stream),
                  "multiplying");
    std::vector<float> result = y.ToHost(stream);
    const std::vector<uint16_t> bits = rounded.ToHost(stream);
    for (size_t i = 0; i < bits.size() && bf16; ++i) result[i] = FromBf16(bits[i]);
    result.resize(rows * shape_.outputs);
    return result;
  }

  std::vector<float> Expected() const {
    std::vector<float> expected;
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t o = 0; o < shape_.outputs; ++o) {
        double sum = shape_.result == GemmResult::kAdd ? before_[row * shape_.outputs + o] : 0;
        for (int64_t i = 0; i < shape_.inputs; ++i) {
          sum += static_cast<double>(FromBf16(x_[row * shape_.inputs + i])) *
                 FromBf16(weight_[o * shape_.inputs + i]);
        }
        expected.push_back(static_cast<float>(sum));
      }
    }
    return expected;
  }

 private:
  const GemmShape shape_;
  const int64_t rows_;
  const std::vector<uint16_t> x_, weight_;
  const std::vector<float> before_;
  const DeviceArray<uint16_t> device_x_, device_weight_;
};

// Near float64, and a row has the same bits in launches of every size.
TEST_F(GemmTest, ARowHasTheSameBitsInLaunchesOfAllSizes) {
  constexpr int64_t kRows = 256;
  for (const GemmResult result : {GemmResult::kBf16, GemmResult::kFloat, GemmResult::kAdd}) {
    const GemmShape shape = {.inputs = 72, .outputs = 40, .result = result};
    const Product product(shape, kRows);
    const absl::StatusOr<GemmPlan> plan = PlanGemm(*library_, shape, Scratch(), stream_);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_GE(plan->most_rows(), kRows);
    const std::vector<float> all = product.Run(*library_, *plan, kRows, stream_);
    const Tolerance tolerance =
        result == GemmResult::kBf16 ? Tolerance{1e-5, 4e-3} : Tolerance{1e-5, 1e-5};
    EXPECT_THAT(all, TensorNear(product.Expected(), tolerance));
    for (const int64_t rows : {32, 64, 96, 128, 160}) {
      const std::vector<float> some = product.Run(*library_, *plan, rows, stream_);
      EXPECT_THAT(some, TensorBitsEqual(
                            std::vector<float>(all.begin(), all.begin() + rows * shape.outputs)))
          << rows;
    }
  }
}

// Passes all on to another library, and fails when it is told to.
class FailingLibrary : public GemmLibrary {
 public:
  explicit FailingLibrary(GemmLibrary& library) : library_(library) {}

  std::string description() const override { return "a library that fails"; }
  int64_t most_rows() const override { return library_.most_rows(); }
  std::vector<GemmAlgorithm> Algorithms(const GemmShape& shape, int64_t rows) override {
    return has_algorithms ? library_.Algorithms(shape, rows) : std::vector<GemmAlgorithm>();
  }
  ErrorCode Multiply(const GemmShape& shape, const GemmAlgorithm& algorithm,
                     const GemmOperands& operands, Stream stream) override {
    const int product = products++;
    if (product < first_failure || product >= first_failure + failures) {
      return library_.Multiply(shape, algorithm, operands, stream);
    }
    return error;
  }

  bool has_algorithms = true;
  int products = 0;
  int first_failure = 1'000'000;
  int failures = 1'000'000;
  ErrorCode error = 999;

 private:
  GemmLibrary& library_;
};

TEST_F(GemmTest, OnlyWhatIsNotSupportedMakesWayForAnotherFirstAlgorithm) {
  const GemmShape shape = {.inputs = 64, .outputs = 16};
  const auto plan = [&](GemmLibrary& library) {
    return PlanGemm(library, shape, Scratch(), stream_);
  };
  FailingLibrary none(*library_);
  none.has_algorithms = false;
  EXPECT_TRUE(absl::IsUnavailable(plan(none).status())) << plan(none).status();
  FailingLibrary unsupported(*library_);
  unsupported.first_failure = 0;
  unsupported.error = kGemmNotSupported;
  EXPECT_TRUE(absl::IsUnavailable(plan(unsupported).status())) << plan(unsupported).status();
  FailingLibrary broken(*library_);
  broken.first_failure = 0;
  EXPECT_TRUE(absl::IsInternal(plan(broken).status())) << plan(broken).status();
  // Not even where it fails but once, when it is compared with itself: the emulator's first one is
  // not supported, and its second one begins with GEMM 1.
  FailingLibrary unsteady(*library_);
  unsteady.first_failure = 2;
  unsteady.failures = 1;
  EXPECT_TRUE(absl::IsInternal(plan(unsteady).status())) << plan(unsteady).status();
}

// Failures of others than the first algorithm cost speed at most.
TEST_F(GemmTest, APlanEndsWithTheSizeAtWhichNothingWorks) {
  const GemmShape shape = {.inputs = 64, .outputs = 16};
  FailingLibrary counting(*library_);
  const absl::StatusOr<GemmPlan> whole = PlanGemm(counting, shape, Scratch(), stream_);
  ASSERT_TRUE(whole.ok()) << whole.status();
  FailingLibrary failing(*library_);
  failing.first_failure = counting.products / 2;
  const absl::StatusOr<GemmPlan> part = PlanGemm(failing, shape, Scratch(), stream_);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_GE(part->sizes, 1);
  EXPECT_LT(part->sizes, whole->sizes);
  EXPECT_EQ(part->bits, whole->bits);
}

// A library of the one algorithm of another one that is to be shown.
class OneAlgorithm : public GemmLibrary {
 public:
  OneAlgorithm(GemmLibrary& library, uint64_t algorithm)
      : library_(library), algorithm_{{algorithm}} {}

  std::string description() const override { return "a library of one algorithm"; }
  int64_t most_rows() const override { return library_.most_rows(); }
  std::vector<GemmAlgorithm> Algorithms(const GemmShape& /*shape*/, int64_t /*rows*/) override {
    return {algorithm_};
  }
  ErrorCode Multiply(const GemmShape& shape, const GemmAlgorithm& algorithm,
                     const GemmOperands& operands, Stream stream) override {
    return library_.Multiply(shape, algorithm, operands, stream);
  }

 private:
  GemmLibrary& library_;
  const GemmAlgorithm algorithm_;
};

// Another order of summing has other ones.
TEST_F(GemmTest, BitsAreThoseOfTheAlgorithm) {
  if (LinkedDevice() != DeviceKind::kEmulator) GTEST_SKIP() << "the emulator has such ones";
  constexpr uint64_t kInOrder = 1, kAlsoInOrder = 2, kInHalves = 3, kFromY = 6;  // as there
  for (const GemmResult result : {GemmResult::kBf16, GemmResult::kAdd}) {
    const GemmShape shape = {.inputs = 64, .outputs = 16, .result = result};
    const auto bits = [&](uint64_t algorithm) {
      OneAlgorithm library(*library_, algorithm);
      const absl::StatusOr<GemmPlan> plan = PlanGemm(library, shape, Scratch(), stream_);
      EXPECT_TRUE(plan.ok()) << plan.status();
      return plan.ok() ? plan->bits : 0;
    };
    EXPECT_EQ(bits(kInOrder), bits(kAlsoInOrder));
    EXPECT_NE(bits(kInOrder), bits(kInHalves));
    if (result == GemmResult::kAdd) {
      EXPECT_NE(bits(kInOrder), bits(kFromY));
    }
  }
}

TEST_F(GemmTest, BitsAreThoseOfTheProduct) {
  const auto bits = [&](const GemmShape& shape) {
    const absl::StatusOr<GemmPlan> plan = PlanGemm(*library_, shape, Scratch(), stream_);
    return plan.ok() ? plan->bits : 0;
  };
  const GemmShape shape = {.inputs = 64, .outputs = 16};
  EXPECT_NE(bits(shape), 0);
  EXPECT_EQ(bits(shape), bits(shape));
  EXPECT_NE(bits(shape), bits({.inputs = 72, .outputs = 16}));
}

// Not even for one whose results are rounded to bf16, where few sums show their last bits.
TEST_F(GemmTest, AnAlgorithmWithOtherBitsIsNotTaken) {
  if (LinkedDevice() != DeviceKind::kEmulator) GTEST_SKIP() << "the emulator has such ones";
  const auto has_the_bits = [](const GemmAlgorithm& algorithm) {
    return algorithm.data[0] == 1 || algorithm.data[0] == 2;  // gemms_emulated.cc
  };
  for (const GemmResult result : {GemmResult::kBf16, GemmResult::kFloat, GemmResult::kAdd}) {
    const GemmShape shape = {.inputs = 64, .outputs = 16, .result = result};
    const absl::StatusOr<GemmPlan> plan = PlanGemm(*library_, shape, Scratch(), stream_);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(plan->sizes, 3);
    ASSERT_FALSE(has_the_bits(library_->Algorithms(shape, 256).front()));
    for (int size = 0; size < plan->sizes; ++size) {
      EXPECT_TRUE(has_the_bits(plan->algorithms[size])) << plan->algorithms[size].data[0];
    }
  }
}

TEST_F(GemmTest, ScratchLimitsTheLargestLaunch) {
  const GemmShape shape = {.inputs = 64, .outputs = 64};
  // The weight, x, y and the expected result of 64 rows, without padding.
  const int64_t of_64 = 2 * 64 * 64 * 2 + 2 * 64 * 64 * 4 + 256;
  const int64_t of_128 = of_64 + 64 * 64 * (2 + 4);
  for (const auto& [bytes, rows] :
       {std::pair<int64_t, int64_t>{of_64, 64}, {of_128 - 1, 64}, {of_128, 128}}) {
    const absl::StatusOr<GemmPlan> plan =
        PlanGemm(*library_, shape, {scratch_.data(), bytes}, stream_);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->most_rows(), rows);
  }
  const absl::Status status =
      PlanGemm(*library_, shape, {scratch_.data(), of_64 - 1}, stream_).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(of_64, " bytes to measure")));
}

TEST(GemmSizeTest, IsTheSmallestThatHoldsTheRows) {
  EXPECT_EQ(GemmSizeOf(32), 0);
  EXPECT_EQ(GemmSizeOf(64), 0);
  EXPECT_EQ(GemmSizeOf(96), 1);
  EXPECT_EQ(GemmSizeOf(kMostGemmRows), kGemmSizes - 1);
}

TEST(OpenCublasLtTest, SaysWhatIsWrong) {
  const absl::Status missing = OpenCublasLt("/nowhere/libcublasLt.so.13").status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("/nowhere/libcublasLt.so.13"));

  const std::string path = absl::StrCat(testing::TempDir(), "/text.so");
  std::ofstream(path) << "not a library";
  EXPECT_THAT(std::string(OpenCublasLt(path).status().message()), HasSubstr(path));

  const absl::Status other = OpenCublasLt("libm.so.6").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr("libm.so.6 is not cuBLASLt"));

  const std::string old = OldCublasLtPath();
  if (old.empty()) GTEST_SKIP() << "built without the emulator";
  const absl::Status too_old = OpenCublasLt(old).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(too_old)) << too_old;
  EXPECT_THAT(std::string(too_old.message()),
              HasSubstr("is cuBLASLt 11.5.0, but 12.0.0 or newer is required"));
}

}  // namespace
}  // namespace chorale::kernels::cuda
