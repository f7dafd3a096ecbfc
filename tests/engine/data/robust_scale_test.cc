// Columns of all kinds against numbers that another implementation computed: the file is made by
// tests/golden/make_robust_scale.py.
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/data/bulk.h"
#include "engine/data/feature_transform.h"
#include "engine/data/target_bound.h"
#include "engine/model/model_config.h"
#include "gtest/gtest.h"
#include "tests/engine/data/make_column.h"

namespace chorale {
namespace {

using Json = nlohmann::json;

Json Cases() {
  std::ifstream file(CHORALE_SOURCE_DIR "/tests/golden/robust_scale.json");
  return Json::parse(file);
}

std::vector<double> NumbersOf(const Json& array) {
  std::vector<double> numbers;
  for (const Json& number : array) {
    numbers.push_back(number.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                       : number.get<double>());
  }
  return numbers;
}

Column ColumnOf(const Json& each, const std::vector<double>& cells) {
  if (each["kind"] != "categorical") return Numbers("column", cells);
  std::vector<std::string> categories;
  for (int i = 0; i < 26; ++i) categories.push_back(std::string(1, static_cast<char>('a' + i)));
  std::vector<int32_t> codes;
  for (const double cell : cells) {
    codes.push_back(std::isnan(cell) ? kMissingCode : static_cast<int32_t>(cell));
  }
  return Categories("column", categories, codes);
}

// Column 0 of two.
void ExpectValues(const FeatureMatrix& matrix, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool missing = !matrix.missing.empty() && matrix.missing[2 * i] != 0;
    ASSERT_EQ(missing, std::isnan(expected[i])) << i;
    if (!missing) {
      EXPECT_FLOAT_EQ(matrix.x[2 * i], static_cast<float>(expected[i])) << i;
    }
  }
}

void ExpectFeature(const Json& each) {
  const std::vector<double> context = NumbersOf(each["context"]);
  const std::vector<double> expected = NumbersOf(each["request_values"]);
  Dataset dataset;
  std::vector<double> another(context.size());  // so that some column is left
  for (size_t i = 0; i < another.size(); ++i) another[i] = static_cast<double>(i % 2);
  dataset.features.columns = {ColumnOf(each, context), Numbers("another", another)};
  dataset.target = "y";
  dataset.y.assign(context.size(), 1);
  ModelConfig config;
  config.normalize_x = Normalization::kZScore;
  const auto transform = FeatureTransform::Fit(dataset, config);
  ASSERT_TRUE(transform.ok()) << transform.status();
  Table table;
  table.columns = {ColumnOf(each, NumbersOf(each["request"])),
                   Numbers("another", std::vector<double>(expected.size(), 1))};
  const auto matrix = transform->Apply(table);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  const bool left_out = each["left_out"].get<bool>();
  if (context.size() > 1) {
    ASSERT_EQ(matrix->features, left_out ? 1 : 2);
  }
  if (left_out) return;
  ExpectValues(*matrix, expected);
  const auto own = transform->Apply(dataset.features);
  ASSERT_TRUE(own.ok()) << own.status();
  if (own->features == 2) ExpectValues(*own, NumbersOf(each["context_values"]));
}

void ExpectTarget(const Json& each) {
  Dataset dataset;
  dataset.y = NumbersOf(each["context"]);
  dataset.features.columns = {Numbers("x", std::vector<double>(dataset.y.size(), 1))};
  dataset.target = "y";
  ModelConfig config;
  config.normalize_y = Normalization::kZScore;
  const auto transform = FeatureTransform::Fit(dataset, config);
  ASSERT_TRUE(transform.ok()) << transform.status();
  const TargetBound bound = TargetBound::Of(dataset.y);
  if (each.value("limit", Json()).is_null()) {
    for (const double y : dataset.y) EXPECT_TRUE(bound.Contains(y)) << y;
  } else {
    EXPECT_DOUBLE_EQ(bound.limit(), each["limit"].get<double>());
  }
  const std::vector<double> context_values = NumbersOf(each["context_values"]);
  for (size_t i = 0; i < dataset.y.size(); ++i) {
    EXPECT_FLOAT_EQ(transform->ContextToModel(dataset.y[i]), static_cast<float>(context_values[i]));
  }
  const std::vector<double> request = NumbersOf(each["request"]);
  const std::vector<double> request_values = NumbersOf(each["request_values"]);
  for (size_t i = 0; i < request.size(); ++i) {
    EXPECT_FLOAT_EQ(transform->ToModel(request[i]), static_cast<float>(request_values[i]));
  }
}

TEST(RobustScaleTest, MatchesTheReference) {
  const Json cases = Cases();
  ASSERT_GE(cases.size(), 30u);
  for (const Json& each : cases) {
    SCOPED_TRACE(each["name"].get<std::string>());
    if (each["kind"] == "target") {
      ASSERT_EQ(each["k"].get<double>(), TargetBound::kLeastLimit);
      ExpectTarget(each);
    } else {
      ASSERT_EQ(each["k"].get<double>(), Bulk::kReach);
      ExpectFeature(each);
    }
  }
}

}  // namespace
}  // namespace chorale
