// The validation of known values and of groups of query rows.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/session/request_validation_fixture.h"

namespace chorale {
namespace {

using testing::MakeTargets;

TEST_F(RequestValidationTest, KnownValues) {
  const auto known = [](std::vector<int32_t> rows, std::vector<double> values) {
    return [=](auto& r) { r.known = {rows, values}; };
  };
  // Fields that all three requests check alike.
  const auto expect = [&](const std::string& field, std::vector<int32_t> rows,
                          std::vector<double> values) {
    EXPECT_EQ(Sample(known(rows, values)), field);
    EXPECT_EQ(Predict(known(rows, values)), field);
    EXPECT_EQ(Density([&](auto& r) {
                r.known = {rows, values};
                r.y.resize(5 * std::max<size_t>(4 - std::min<size_t>(rows.size(), 4), 1));
              }),
              field);
  };
  expect("", {3, 0, 1}, {1, 2, 3});
  expect("known.rows", {3, 0, 1, 2}, {1, 2, 3, 4});
  expect("known.rows", {3, 0, 1, 2, 2}, {1, 2, 3, 4, 5});
  expect("known.rows[1]", {3, 4}, {1, 2});
  expect("known.rows[0]", {-1}, {1});
  expect("known.rows[0]", {std::numeric_limits<int32_t>::min()}, {1});
  expect("known.rows[2]", {3, 0, 3}, {1, 2, 3});
  expect("known.values", {3, 0}, {1});
  expect("known.values", {3, 0}, {1, 2, 3});
  expect("known.values", {3}, {});
  expect("known.values", {}, {1});
  expect("known.values[1]", {3, 0}, {1, std::nan("")});
  expect("known.values[0]", {3}, {std::numeric_limits<double>::infinity()});
  // One set for each path, or for each vector.
  EXPECT_EQ(Sample(known({3, 0}, std::vector<double>(20, 1))), "");
  EXPECT_EQ(Sample(known({3, 0}, std::vector<double>(18, 1))), "known.values");
  const auto vectors = [&](size_t values) {
    return Density([=](auto& r) {
      r.known = {{3, 0}, std::vector<double>(values, 1)};
      r.y.resize(10);
    });
  };
  EXPECT_EQ(vectors(10), "");
  EXPECT_EQ(vectors(8), "known.values");
  EXPECT_EQ(Predict(known({3, 0}, {1, 2, 3, 4})), "known.values");
  // Vectors have the values of the other rows alone.
  EXPECT_EQ(Density(known({3, 0}, {1, 2})), "values");  // 20 values are 10 vectors of 2 rows
  const absl::Status status = ValidateRequest(
      [&] {
        SampleRequest request = GoodSample();
        request.known = {{3, 0}, {1, 2, 3}};
        return request;
      }(),
      config_, limits_, *backend_);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("must have 2 (the number of known.rows), or 2 for each of 10"));
}

TEST_F(RequestValidationTest, DensitiesOfKnownValuesFitIntoAResponse) {
  const auto sets = [](int64_t sets) {
    return [=](auto& r) { r.known = {{3}, std::vector<double>(sets, 1)}; };
  };
  limits_.max_response_bytes = 10 * 8;
  EXPECT_EQ(Sample(sets(10)), "");
  --limits_.max_response_bytes;
  EXPECT_EQ(Sample(sets(10)), "known.values");
  const auto vectors = [](auto& r) {
    r.known = {{3, 0}, std::vector<double>(20, 1)};
    r.vectors = 10;  // of the other 2 rows
  };
  limits_.max_response_bytes = (10 + 10) * 8;
  EXPECT_EQ(Density(vectors), "");
  --limits_.max_response_bytes;
  EXPECT_EQ(Density(vectors), "known.values");
}

TEST_F(RequestValidationTest, PredictionsGivenKnownValuesHavePaths) {
  const auto known = [](int64_t known_rows, int64_t rows, BeyondBuffer beyond) {
    return [=](auto& r) {
      r.query_rows = MakeTargets(rows);
      for (int32_t row = 0; row < known_rows; ++row) r.known.rows.push_back(row);
      r.known.values.assign(known_rows, 1);
      r.beyond_buffer = beyond;
    };
  };
  EXPECT_EQ(Predict(known(7, 20, BeyondBuffer::kRefuse)), "");
  EXPECT_EQ(Predict(known(8, 20, BeyondBuffer::kRefuse)), "known.rows");
  EXPECT_EQ(Predict(known(8, 20, BeyondBuffer::kWrap)), "");
  PredictRequest request = GoodPredict();
  known(8, 20, BeyondBuffer::kRefuse)(request);
  const absl::Status status = ValidateRequest(request, config_, limits_, *backend_);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("known.rows: has 8 entries, which require paths of 9 rows"));
  limits_.max_values = 13 * 8;
  EXPECT_EQ(Predict(known(7, 20, BeyondBuffer::kRefuse)), "");
  --limits_.max_values;
  EXPECT_EQ(Predict(known(7, 20, BeyondBuffer::kRefuse)), "known.rows");
  limits_.max_values = 300;
  limits_.max_response_bytes = 13 * (2 + 2) * 8;  // of the predicted rows alone
  EXPECT_EQ(Predict(known(7, 20, BeyondBuffer::kRefuse)), "");
  --limits_.max_response_bytes;
  EXPECT_EQ(Predict(known(7, 20, BeyondBuffer::kRefuse)), "quantiles");
}

TEST_F(RequestValidationTest, Groups) {
  const auto expect = [&](const std::string& field, std::vector<int32_t> sizes,
                          std::vector<int32_t> known) {
    const auto change = [&](auto& r) {
      r.group_sizes = sizes;
      r.known = {known, std::vector<double>(known.size(), 1)};
    };
    EXPECT_EQ(Sample(change), field);
    EXPECT_EQ(Predict(change), field);
    EXPECT_EQ(Density([&](auto& r) {
                change(r);
                r.y.resize(5 * (4 - known.size()));
              }),
              field);
  };
  expect("", {4}, {});
  expect("", {1, 2, 1}, {});
  expect("", {2, 2}, {3, 0});
  expect("group_sizes", {4, 1}, {});
  expect("group_sizes", {3}, {});
  expect("group_sizes", {std::numeric_limits<int32_t>::max(), 1}, {});
  expect("group_sizes[1]", {4, 0}, {});
  expect("group_sizes[0]", {-1, 5}, {});
  expect("known.rows", {1, 3}, {2, 0});
  expect("known.rows[0]", {1, 3}, {4});
}

TEST_F(RequestValidationTest, DensitiesOfGroupsFitIntoAResponse) {
  const auto groups = [](auto& r) { r.group_sizes = {1, 1, 1, 1}; };
  limits_.max_response_bytes = 5 * 4 * 8;
  EXPECT_EQ(Density(groups), "");
  --limits_.max_response_bytes;
  EXPECT_EQ(Density(groups), "values");
  const auto known = [](auto& r) {
    r.group_sizes = {2, 2};
    r.known = {{0}, std::vector<double>(10, 1)};  // of each path
  };
  limits_.max_response_bytes = 10 * 2 * 8;
  EXPECT_EQ(Sample(known), "");
  --limits_.max_response_bytes;
  EXPECT_EQ(Sample(known), "known.values");
}

}  // namespace
}  // namespace chorale
