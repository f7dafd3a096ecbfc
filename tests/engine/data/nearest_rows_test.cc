#include "engine/data/nearest_rows.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSubsetOf;

FeatureMatrix Matrix(int64_t features, std::vector<float> x) {
  FeatureMatrix matrix;
  matrix.features = features;
  matrix.rows = std::ssize(x) / features;
  matrix.x = std::move(x);
  return matrix;
}

FeatureMatrix RandomMatrix(testing::Random* random, int64_t rows, int64_t features) {
  std::vector<float> x(rows * features);
  // Few distinct numbers, so that many distances are equal.
  for (float& cell : x) cell = static_cast<float>(random->Below(20));
  return Matrix(features, std::move(x));
}

// The rows that are nearest to a query row, by the definition.
std::vector<int32_t> NearestTo(const FeatureMatrix& table, const float* query_row, int64_t count) {
  std::vector<std::pair<double, int32_t>> by_distance;
  for (int64_t row = 0; row < table.rows; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < table.features; ++i) {
      const double difference = table.x[row * table.features + i] - query_row[i];
      sum += difference * difference;
    }
    by_distance.push_back({sum, static_cast<int32_t>(row)});
  }
  std::sort(by_distance.begin(), by_distance.end());
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < count; ++i) rows.push_back(by_distance[i].second);
  return rows;
}

TEST(NearestRowsTest, ChoosesTheNearestRowsOfEachQueryRow) {
  const FeatureMatrix table = Matrix(1, {9, 0, 5, 1, 8, 4});
  EXPECT_THAT(NearestRows(table, Matrix(1, {0.4f, 8.6f}), 4, 1), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(NearestRows(table, Matrix(1, {4.6f}), 2, 1), ElementsAre(2, 5));
}

TEST(NearestRowsTest, EveryFeatureCounts) {
  const FeatureMatrix table = Matrix(2, {0, 0, 0, 9, 9, 0, 9, 9});
  EXPECT_THAT(NearestRows(table, Matrix(2, {1, 8}), 1, 1), ElementsAre(1));
  EXPECT_THAT(NearestRows(table, Matrix(2, {8, 1}), 1, 1), ElementsAre(2));
}

TEST(NearestRowsTest, OfEquallyNearRowsTheFirstAreChosen) {
  EXPECT_THAT(NearestRows(Matrix(1, std::vector<float>(200, 1)), Matrix(1, {0}), 3, 1),
              ElementsAre(0, 1, 2));
}

TEST(NearestRowsTest, AgreesWithTheDefinition) {
  testing::Random random(1);
  for (const int64_t rows : {1, 63, 64, 65, 300}) {
    for (const int64_t queries : {1, 3, 20}) {
      if (queries > rows) continue;
      const FeatureMatrix table = RandomMatrix(&random, rows, 3);
      const FeatureMatrix query_rows = RandomMatrix(&random, queries, 3);
      const int64_t count = queries + random.Below(rows - queries + 1);
      const std::vector<int32_t> chosen = NearestRows(table, query_rows, count, 1);
      ASSERT_EQ(std::ssize(chosen), count);
      EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
      EXPECT_EQ(std::ssize(std::set<int32_t>(chosen.begin(), chosen.end())), count);
      for (int64_t i = 0; i < queries; ++i) {
        const float* const query_row = query_rows.x.data() + i * 3;
        EXPECT_THAT(NearestTo(table, query_row, count / queries), IsSubsetOf(chosen));
      }
    }
  }
}

// Ten query rows of the same place choose a tenth of the rows there.
TEST(NearestRowsTest, TheRestIsRandom) {
  std::vector<float> x(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const FeatureMatrix table = Matrix(1, x);
  const FeatureMatrix query_rows = Matrix(1, std::vector<float>(10, 0));
  const std::vector<int32_t> chosen = NearestRows(table, query_rows, 200, 1);
  const auto below = [&](int32_t end) {
    return std::lower_bound(chosen.begin(), chosen.end(), end) - chosen.begin();
  };
  EXPECT_EQ(below(20), 20);
  EXPECT_NEAR(below(510) - 20, 90, 25) << "of 180, in one half of the other rows";
  EXPECT_EQ(NearestRows(table, query_rows, 200, 1), chosen);
  EXPECT_NE(NearestRows(table, query_rows, 200, 2), chosen);
  // Further down, the same rows of those that are not near to a query row.
  const std::vector<int32_t> elsewhere =
      NearestRows(table, Matrix(1, std::vector<float>(10, 999)), 200, 1);
  std::vector<int32_t> common;
  std::set_intersection(chosen.begin(), chosen.end(), elsewhere.begin(), elsewhere.end(),
                        std::back_inserter(common));
  EXPECT_GT(common.size(), 165);
}

TEST(NearestRowsTest, AllRowsAreChosenIfAllAreWanted) {
  const FeatureMatrix table = Matrix(1, {3, 1, 2});
  EXPECT_THAT(NearestRows(table, Matrix(1, {0, 0}), 3, 1), ElementsAre(0, 1, 2));
}

TEST(NearestRowsTest, InfiniteDistancesAreTheFarthest) {
  const float large = std::numeric_limits<float>::max();
  const FeatureMatrix table = Matrix(1, {large, -large, 1, 2});
  EXPECT_THAT(NearestRows(table, Matrix(1, {0}), 2, 1), ElementsAre(2, 3));
}

}  // namespace
}  // namespace chorale
