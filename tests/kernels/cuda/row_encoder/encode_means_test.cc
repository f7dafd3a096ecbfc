#include "kernels/cuda/row_encoder/encode_means.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

class EncodeMeansTest : public DeviceTest {};

TEST_F(EncodeMeansTest, IsALinearMapOfTheMean) {
  for (const auto& [rows, width] : std::vector<std::pair<int, int>>{{1, 8}, {19, 40}}) {
    const std::vector<float> random = RandomTensor(rows, 1), weight = RandomTensor(width, 2);
    const std::vector<float> bias = RandomTensor(width, 3);
    const std::vector<double> means(random.begin(), random.end());
    const DeviceArray<double> means_on_device(means);
    const DeviceArray<float> weight_on_device(weight), bias_on_device(bias);
    const DeviceArray<float> encodings(static_cast<size_t>(rows) * width);
    const EncodeMeansParams params = {.means = means_on_device.data(),
                                      .weight = weight_on_device.data(),
                                      .bias = bias_on_device.data(),
                                      .encodings = encodings.data(),
                                      .rows = rows,
                                      .width = width};
    ASSERT_TRUE(ValidateEncodeMeans(params).ok());
    ExpectSuccess(LaunchEncodeMeans(params, stream_), "launching");
    std::vector<float> expected;
    for (double mean : means) {
      for (int d = 0; d < width; ++d) {
        expected.push_back(static_cast<float>(mean * weight[d] + bias[d]));
      }
    }
    EXPECT_THAT(encodings.ToHost(stream_), TensorBitsEqual(expected));
  }
}

TEST(ValidateEncodeMeansTest, NamesTheField) {
  auto* const some = reinterpret_cast<float*>(1);
  const EncodeMeansParams good = {.means = reinterpret_cast<double*>(1),
                                  .weight = some,
                                  .bias = some,
                                  .encodings = some,
                                  .rows = 1,
                                  .width = 1};
  ASSERT_TRUE(ValidateEncodeMeans(good).ok());
  EncodeMeansParams params = good;
  params.means = nullptr;
  EXPECT_THAT(std::string(ValidateEncodeMeans(params).message()), testing::HasSubstr("means"));
  params = good;
  params.rows = 0;
  EXPECT_THAT(std::string(ValidateEncodeMeans(params).message()), testing::HasSubstr("rows"));
}

}  // namespace
}  // namespace chorale::kernels::cuda
