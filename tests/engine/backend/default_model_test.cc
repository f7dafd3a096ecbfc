// The default model on real tables, against the training code in float64.
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/feature_transform.h"
#include "engine/model/model.h"
#include "gtest/gtest.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/path_arrays.h"
#include "tests/golden/golden_table.h"

namespace chorale {
namespace {

using under_test::Size;

class DefaultModelTest : public under_test::BackendTest,
                         public testing::WithParamInterface<std::string> {};

TEST_P(DefaultModelTest, DensitiesOfRealTables) {
  if (under_test::TooLargeForDevice(Size::kLarge)) {
    GTEST_SKIP() << "too large for the emulator";
  }
  const absl::StatusOr<Model> model = LoadModel(DefaultModelFolder());
  ASSERT_TRUE(model.ok()) << model.status();
  const absl::StatusOr<GoldenTable> table = GoldenTable::Open(GetParam(), model->digest);
  ASSERT_TRUE(table.ok()) << table.status();
  const absl::StatusOr<FeatureTransform> transform =
      FeatureTransform::Fit(table->context(), model->config);
  ASSERT_TRUE(transform.ok()) << transform.status();
  const absl::StatusOr<FeatureMatrix> context_x = transform->Apply(table->context().features);
  const absl::StatusOr<FeatureMatrix> target_x = transform->Apply(table->query_rows());
  ASSERT_TRUE(context_x.ok() && target_x.ok());
  std::vector<float> context_y;
  for (const double y : table->context().y) context_y.push_back(transform->ToModel(y));

  BackendDriver driver = under_test::NewDriver();
  TileSpec tile;
  tile.context = driver.Encode(driver.AddModel(*model), *context_x, context_y);
  tile.query_rows = driver.EncodeRows(tile.context, *target_x);
  const int64_t query_rows = target_x->rows;
  std::vector<float> values;  // [paths, T]
  for (const double y : (*table)("path_y")) values.push_back(transform->ToModel(y));
  tile.paths = static_cast<int64_t>(values.size()) / query_rows;
  const auto density = driver.NewDensity(tile, Transposed(values, tile.paths, query_rows));
  driver.Run(density.get());

  const std::vector<double> expected = (*table)("path_log_density");
  double worst_term = 0;
  for (int64_t p = 0; p < tile.paths; ++p) {
    double error = 0;
    for (int64_t t = 0; t < query_rows; ++t) {
      // In the user's units: a density per unit of y.
      const double actual = density->log_densities()[t * tile.paths + p] -
                            std::log(transform->ToUser(1) - transform->ToUser(0));
      error += actual - expected[p * query_rows + t];
      worst_term = std::max(worst_term, std::abs(actual - expected[p * query_rows + t]));
    }
    const double per_target = error / static_cast<double>(query_rows);
    EXPECT_LE(std::abs(per_target), under_test::ToleratedErrors().mean_log_density) << "path " << p;
    std::cout << GetParam() << " path " << p << ": error of the joint log-density " << per_target
              << " nat per query row\n";
  }
  std::cout << GetParam() << ": worst error of one query row's log-density " << worst_term << "\n";
}

INSTANTIATE_TEST_SUITE_P(, DefaultModelTest, testing::ValuesIn(GoldenTableNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace chorale
