// The row encoder "cell_attention" on a context whose columns are fitted in several parts, against
// float64.
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/row_encoder/row_encoder.h"
#include "engine/data/feature_transform.h"
#include "engine/model/model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/reference_row_encoder.h"
#include "tests/engine/backend/test_model.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale {
namespace {

class ManyRowsTest : public testing::Test {
 protected:
  // Runs the tasks in their order, or in the reverse order.
  std::vector<float> Encode(bool reverse) const {
    const std::unique_ptr<const RowEncoder> encoder = MakeRowEncoder(model_);
    const std::unique_ptr<RowEncoderFit> fit = encoder->NewFit(context_, y_);
    EXPECT_EQ(fit->tasks(), 3 * context_.features);
    for (int64_t task = 0; task < fit->tasks(); ++task) {
      fit->RunTask(reverse ? fit->tasks() - 1 - task : task);
    }
    std::vector<float> encodings(rows_.rows * model_.config.d_model);
    encoder->Encode(*fit->Finish(), rows_, 0, rows_.rows, encodings.data());
    return encodings;
  }

  const Model model_ = MakeTestModel({.row_encoder = "cell_attention"});
  const FeatureMatrix context_ = MakeFeatures(2 * 16'384 + 5, 2, 1);
  const std::vector<float> y_ = MakeValues(context_.rows, 2);
  const FeatureMatrix rows_ = MakeFeatures(20, 2, 3);
};

TEST_F(ManyRowsTest, AgreesWithTheReference) {
  const std::vector<float> encodings = Encode(/*reverse=*/false);
  std::vector<double> expected;
  for (const auto& row : reference::EncodeRows(model_, context_, y_, rows_)) {
    expected.insert(expected.end(), row.begin(), row.end());
  }
  ExpectClose("encodings", absl::MakeConstSpan(encodings), absl::MakeConstSpan(expected), 1e-5);
}

TEST_F(ManyRowsTest, TheOrderOfTheTasksDoesNotMatter) {
  EXPECT_THAT(Encode(/*reverse=*/true), kernels::TensorBitsEqual(Encode(/*reverse=*/false)));
}

}  // namespace
}  // namespace chorale
