// Encodings of rows by their means: the bits of the definition in float64.
#include "kernels/cuda/row_encoder/feature_mean.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

struct Problem {
  std::vector<float> cells;  // [rows, features]
  int features = 0;
  std::vector<float> weight, bias;  // [D]

  int rows() const { return static_cast<int>(cells.size()) / features; }

  // [rows, columns], from feature `first` on.
  std::vector<float> Columns(int first, int columns) const {
    std::vector<float> part;
    for (int row = 0; row < rows(); ++row) {
      const auto begin = cells.begin() + row * features + first;
      part.insert(part.end(), begin, begin + columns);
    }
    return part;
  }

  // The definition.
  std::vector<float> Encodings() const {
    std::vector<float> encodings;
    for (int row = 0; row < rows(); ++row) {
      double mean = 0;
      for (int f = 0; f < features; ++f) mean += cells[row * features + f];
      mean /= features;
      for (size_t d = 0; d < weight.size(); ++d) {
        const double product = mean * weight[d];
        encodings.push_back(static_cast<float>(product + bias[d]));
      }
    }
    return encodings;
  }
};

// Biases take away what the first row has, but for the last bits of float64.
Problem RandomProblem(int rows, int features, int width) {
  Problem problem = {.cells = RandomTensor(static_cast<int64_t>(rows) * features, 1),
                     .features = features,
                     .weight = RandomTensor(width, 2),
                     .bias = std::vector<float>(width)};
  const std::vector<float> encodings = problem.Encodings();
  for (int d = 0; d < width; ++d) problem.bias[d] = -encodings[d];
  return problem;
}

class FeatureMeanTest : public DeviceTest {
 protected:
  // With up to `most_columns` features a launch.
  std::vector<float> Run(const Problem& problem, int most_columns) const {
    const int rows = problem.rows();
    const auto width = static_cast<int>(problem.weight.size());
    const DeviceArray<float> weight(problem.weight), bias(problem.bias);
    const DeviceArray<float> encodings(static_cast<size_t>(rows) * width);
    const DeviceArray<double> sums(rows);
    for (int first = 0; first < problem.features; first += most_columns) {
      const int columns = std::min(most_columns, problem.features - first);
      const DeviceArray<float> cells(problem.Columns(first, columns));
      const EncodeFeatureMeansParams params = {
          .cells = cells.data(),
          .weight = weight.data(),
          .bias = bias.data(),
          .sums = most_columns < problem.features ? sums.data() : nullptr,
          .encodings = encodings.data(),
          .rows = rows,
          .columns = columns,
          .first_feature = first,
          .features = problem.features,
          .width = width};
      EXPECT_TRUE(ValidateEncodeFeatureMeans(params).ok()) << ValidateEncodeFeatureMeans(params);
      ExpectSuccess(LaunchEncodeFeatureMeans(params, stream_), "launching");
      ExpectSuccess(Synchronize(stream_), "running");  // before the cells go
    }
    return encodings.ToHost(stream_);
  }
};

TEST_F(FeatureMeanTest, HasTheBitsOfTheDefinition) {
  struct Case {
    int rows, features, width;
  };
  // One of each; a block and more, with vectors that lanes share unevenly; many columns.
  for (const Case& c : {Case{1, 1, 4}, Case{19, 20, 264}, Case{33, 300, 128}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows of " << c.features << " features");
    const Problem problem = RandomProblem(c.rows, c.features, c.width);
    EXPECT_THAT(Run(problem, c.features), TensorBitsEqual(problem.Encodings()));
  }
}

TEST_F(FeatureMeanTest, EveryOperationIsRoundedToFloat64) {
  // The 1 of the first row is lost beside 2^60. That of the second would be beside 2^30 in float32;
  // its mean, a third, is rounded down, and the product with 3 up again.
  const Problem problem = {.cells = {1, 0x1p60f, -0x1p60f, 1, 0x1p30f, -0x1p30f},
                           .features = 3,
                           .weight = {3, 3, 3, 3},
                           .bias = {-1, -1, -1, -1}};
  EXPECT_THAT(Run(problem, 3), TensorBitsEqual(std::vector<float>{-1, -1, -1, -1, 0, 0, 0, 0}));
}

TEST_F(FeatureMeanTest, FeaturesInSeveralLaunchesHaveTheSameBits) {
  const Problem problem = RandomProblem(18, 25, 36);
  for (const int most_columns : {1, 10, 24}) {
    EXPECT_THAT(Run(problem, most_columns), TensorBitsEqual(problem.Encodings())) << most_columns;
  }
}

TEST(ValidateEncodeFeatureMeansTest, NamesTheField) {
  auto* const some = reinterpret_cast<float*>(1);
  const EncodeFeatureMeansParams good = {.cells = some,
                                         .weight = some,
                                         .bias = some,
                                         .encodings = some,
                                         .rows = 1,
                                         .columns = 3,
                                         .features = 3,
                                         .width = 4};
  ASSERT_TRUE(ValidateEncodeFeatureMeans(good).ok()) << ValidateEncodeFeatureMeans(good);
  const auto message = [&](auto change) {
    EncodeFeatureMeansParams params = good;
    change(params);
    return std::string(ValidateEncodeFeatureMeans(params).message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](auto& p) { p.cells = nullptr; }), HasSubstr("cells"));
  EXPECT_THAT(message([](auto& p) { p.encodings = nullptr; }), HasSubstr("encodings"));
  EXPECT_THAT(message([](auto& p) { p.rows = 0; }), HasSubstr("rows"));
  EXPECT_THAT(message([](auto& p) { p.columns = 0; }), HasSubstr("columns"));
  EXPECT_THAT(message([](auto& p) { p.columns = 2; }), HasSubstr("sums"));
  EXPECT_THAT(message([](auto& p) { p.first_feature = 1; }), HasSubstr("first_feature is 1"));
  EXPECT_THAT(message([](auto& p) { p.first_feature = -1; }), HasSubstr("first_feature"));
  EXPECT_THAT(message([](auto& p) { p.width = 6; }), HasSubstr("width is 6"));
}

}  // namespace
}  // namespace chorale::kernels::cuda
