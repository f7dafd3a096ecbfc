// The default model's row encoder on real tables: the cells that it reads and the vectors that it
// makes, against those of the training code in float64.
#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/backend/row_encoder/row_encoder.h"
#include "engine/data/feature_transform.h"
#include "engine/model/model.h"
#include "gtest/gtest.h"
#include "kernels/cpu/target.h"
#include "tests/engine/backend/closeness.h"
#include "tests/golden/golden_table.h"

namespace chorale {
namespace {

constexpr double kTolerance = 1e-4;  // absolute, every element; a vector's are of order one

// With each table, on each instruction set that this machine has.
class DefaultModelRowsTest : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(kernels::ForceSimdTargetForTest(std::get<1>(GetParam())));
    absl::StatusOr<Model> model = LoadModel(DefaultModelFolder());
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    absl::StatusOr<GoldenTable> table = GoldenTable::Open(std::get<0>(GetParam()), model_.digest);
    ASSERT_TRUE(table.ok()) << table.status();
    table_ = std::make_unique<GoldenTable>(*std::move(table));
    absl::StatusOr<FeatureTransform> transform =
        FeatureTransform::Fit(table_->context(), model_.config);
    ASSERT_TRUE(transform.ok()) << transform.status();
    transform_ = std::make_unique<FeatureTransform>(*std::move(transform));
    absl::StatusOr<FeatureMatrix> context = transform_->Apply(table_->context().features);
    absl::StatusOr<FeatureMatrix> query_rows = transform_->Apply(table_->query_rows());
    ASSERT_TRUE(context.ok() && query_rows.ok()) << context.status() << query_rows.status();
    context_ = *std::move(context);
    query_rows_ = *std::move(query_rows);
  }
  void TearDown() override { kernels::ForceSimdTargetForTest(""); }

  template <typename T>
  void Compare(const std::string& tensor, const std::vector<T>& actual) const {
    const std::vector<double> expected = (*table_)(tensor);
    const Worst worst =
        ExpectClose(tensor, absl::MakeConstSpan(actual), absl::MakeConstSpan(expected), kTolerance);
    std::cout << std::get<0>(GetParam()) << " " << std::get<1>(GetParam()) << " " << tensor
              << ": worst absolute error " << worst << " of " << actual.size() << "\n";
  }

  Model model_;
  std::unique_ptr<GoldenTable> table_;
  std::unique_ptr<FeatureTransform> transform_;
  FeatureMatrix context_;
  FeatureMatrix query_rows_;
};

// This encoder does not read the imputed values of missing cells.
std::vector<float> WithGaps(const FeatureMatrix& matrix) {
  std::vector<float> cells = matrix.x;
  for (size_t i = 0; i < matrix.missing.size(); ++i) {
    if (matrix.missing[i] != 0) cells[i] = NAN;
  }
  return cells;
}

TEST_P(DefaultModelRowsTest, CellsAreScaledAsInTraining) {
  Compare("context_cells", WithGaps(context_));
  Compare("target_cells", WithGaps(query_rows_));
}

TEST_P(DefaultModelRowsTest, RowsAreEncodedAsInTraining) {
  std::vector<float> y;
  for (const double value : table_->context().y) y.push_back(transform_->ToModel(value));
  const std::unique_ptr<const RowEncoder> encoder = MakeRowEncoder(model_);
  const std::unique_ptr<RowEncoderFit> fit = encoder->NewFit(context_, y);
  for (int64_t task = 0; task < fit->tasks(); ++task) fit->RunTask(task);
  const std::shared_ptr<const RowEncoderState> state = fit->Finish();
  for (const auto& [tensor, rows] :
       {std::pair("context_encoding", &context_), std::pair("target_encoding", &query_rows_)}) {
    std::vector<float> encodings(rows->rows * model_.config.d_model);
    encoder->Encode(*state, *rows, 0, rows->rows, encodings.data());
    Compare(tensor, encodings);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, DefaultModelRowsTest,
                         testing::Combine(testing::ValuesIn(GoldenTableNames()),
                                          testing::ValuesIn(kernels::SimdTargetNames())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace chorale
