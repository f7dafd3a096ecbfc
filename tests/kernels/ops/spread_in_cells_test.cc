// Centres within a cell against the float64 reference, and their properties where distances and
// weights are extreme.
#include "kernels/ops/spread_in_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "kernels/ops/panel_layout.h"
#include "kernels/ops/spread_keys.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Spread {
  std::vector<int32_t> nearest;  // [n], -1 of keys of other cells
  std::vector<float> distance;   // [cell_keys]
};

// A cell among the keys of a head: every second key, from key 1 on.
struct Cell {
  int64_t keys = 0;
  int64_t head_dim = 16;
  std::vector<float> rows = {};      // [n, Dh]
  std::vector<double> weights = {};  // [n]
  std::vector<int32_t> member = {};
  int32_t coarse_centre = 0;

  static Cell Random(int64_t keys, int64_t head_dim, uint32_t seed) {
    Cell cell = {.keys = keys,
                 .head_dim = head_dim,
                 .rows = RandomTensor(2 * keys * head_dim, seed),
                 .member = std::vector<int32_t>(keys)};
    for (const float x : RandomTensor(2 * keys, seed + 1)) cell.weights.push_back(std::exp(x));
    for (int64_t i = 0; i < keys; ++i) cell.member[i] = static_cast<int32_t>(2 * i + 1);
    cell.coarse_centre = cell.member[keys / 3];
    return cell;
  }

  // In calls of `step` centres. Paddings, and the state before the first call, are NaN or invalid.
  Spread Run(void (*spread)(const SpreadInCellParams&), int64_t count, int64_t step,
             uint64_t seed = 5) const {
    const auto n = static_cast<int64_t>(weights.size());
    const int64_t padded = RoundUp(keys, kPanel);
    std::vector<float> packed(PackedKeysSize(n, head_dim), kNan);
    for (int64_t i = 0; i < n * head_dim; ++i) {
      const int64_t key = i / head_dim;
      packed[((key / kPanel) * head_dim + i % head_dim) * kPanel + key % kPanel] = rows[i];
    }
    std::vector<float> panels(PackedKeysSize(keys, head_dim), kNan);
    std::vector<double> cell_weight(padded, kNan);
    std::vector<int32_t> nearest_place(padded, -1);
    Spread result = {.nearest = std::vector<int32_t>(n, -1),
                     .distance = std::vector<float>(padded, kNan)};
    SpreadInCellParams p;
    p.keys = packed.data();
    p.weight = weights.data();
    p.n = n;
    p.head_dim = head_dim;
    p.member = member.data();
    p.cell_keys = keys;
    p.coarse_centre = coarse_centre;
    p.centre_count = count;
    p.first_index = kFirstIndex;
    p.cell_panels = panels.data();
    p.cell_weight = cell_weight.data();
    p.distance = result.distance.data();
    p.nearest_place = nearest_place.data();
    p.nearest = result.nearest.data();
    p.seed = seed;
    p.stream = 3;
    for (p.first_centre = 0; p.first_centre < count; p.first_centre += step) {
      p.end_centre = std::min(p.first_centre + step, count);
      EXPECT_TRUE(ValidateSpreadInCell(p).ok()) << ValidateSpreadInCell(p);
      spread(p);
    }
    result.distance.resize(keys);
    return result;
  }

  // The places of the centres, in the order in which they were drawn.
  std::vector<int64_t> Centres(const Spread& spread, int64_t count) const {
    std::vector<int64_t> centres(count, -1);
    for (int64_t i = 0; i < keys; ++i) {
      const int64_t c = spread.nearest[member[i]] - kFirstIndex;
      if (spread.distance[i] == -1 && c >= 0 && c < count) centres[c] = i;
    }
    return centres;
  }

  double Square(int64_t a, int64_t b) const {
    double square = 0;
    for (int64_t d = 0; d < head_dim; ++d) {
      const double difference =
          static_cast<double>(rows[member[a] * head_dim + d]) - rows[member[b] * head_dim + d];
      square += difference * difference;
    }
    return square;
  }

  static constexpr int64_t kFirstIndex = 1'000;
};

// As many centres as wanted, the coarse centre first; each other key of the cell joins one of them.
void ExpectValid(const Cell& cell, const Spread& spread, int64_t count) {
  EXPECT_EQ(std::count(spread.distance.begin(), spread.distance.end(), -1.0f), count);
  const std::vector<int64_t> centres = cell.Centres(spread, count);
  EXPECT_THAT(centres, testing::Each(testing::Ge(0)));
  ASSERT_GE(centres[0], 0);
  EXPECT_EQ(cell.member[centres[0]], cell.coarse_centre);
  const std::set<int32_t> members(cell.member.begin(), cell.member.end());
  for (size_t key = 0; key < spread.nearest.size(); ++key) {
    if (members.count(static_cast<int32_t>(key)) == 0) {
      EXPECT_EQ(spread.nearest[key], -1);
      continue;
    }
    EXPECT_GE(spread.nearest[key], Cell::kFirstIndex);
    EXPECT_LT(spread.nearest[key], Cell::kFirstIndex + count);
  }
  for (const float distance : spread.distance) EXPECT_TRUE(std::isfinite(distance));
}

class SpreadInCellsTest : public SimdTargetTest {};
CHORALE_INSTANTIATE_FOR_SIMD_TARGETS(SpreadInCellsTest);

TEST_P(SpreadInCellsTest, AgreesWithReference) {
  for (int64_t head_dim : {8, 16, 32, 64, 128}) {
    for (int64_t keys : {1, 2, 9, 16, 17, 128, 300, 530, 1'100}) {
      if (keys > 300 && head_dim != 16) continue;  // more keys than random numbers at a time
      for (int64_t count :
           {int64_t{1}, std::min<int64_t>(keys, 6), (keys + 2) / 3, keys - 1, keys}) {
        if (count == 0) continue;
        SCOPED_TRACE(testing::Message() << "Dh " << head_dim << ", " << count << " of " << keys);
        const Cell cell = Cell::Random(keys, head_dim, 1);
        const Spread expected = cell.Run(&reference::SpreadInCell, count, count);
        const Spread actual = cell.Run(&SpreadInCell, count, RoundUp(count, kCentresAtOnce));
        EXPECT_EQ(actual.nearest, expected.nearest);
        EXPECT_THAT(actual.distance, TensorNear(expected.distance, Tolerance{0, 2e-6}));
        ExpectValid(cell, actual, count);
      }
    }
  }
}

TEST_P(SpreadInCellsTest, AnyDivisionIntoCallsHasTheSameBits) {
  for (const int64_t keys : {211, 700}) {
    const Cell cell = Cell::Random(keys, 32, 2);
    const Spread at_once = cell.Run(&SpreadInCell, 101, 104);
    for (int64_t step : {8, 24, 96}) {
      const Spread stepwise = cell.Run(&SpreadInCell, 101, step);
      EXPECT_EQ(stepwise.nearest, at_once.nearest) << step;
      EXPECT_THAT(stepwise.distance, TensorBitsEqual(at_once.distance)) << step;
    }
  }
}

// Fewer centres are the first of more.
TEST_P(SpreadInCellsTest, CentresDoNotDependOnHowManyFollow) {
  const Cell cell = Cell::Random(128, 32, 3);
  const std::vector<int64_t> many = cell.Centres(cell.Run(&SpreadInCell, 128, 128), 128);
  for (const int64_t count : {1, 2, 3, 4, 7, 8, 15, 16, 40, 56, 100}) {
    EXPECT_EQ(cell.Centres(cell.Run(&SpreadInCell, count, 104), count),
              std::vector<int64_t>(many.begin(), many.begin() + count));
  }
}

// Random numbers are of keys of the head, not of places in the cell: without a key that is not
// drawn, the others are drawn as before.
TEST_P(SpreadInCellsTest, DrawsAreOfKeysOfTheHead) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Cell cell = Cell::Random(100, 16, 4);
    const std::vector<int64_t> centres = cell.Centres(cell.Run(&SpreadInCell, 4, 8, seed), 4);
    int64_t other = 0;
    while (std::count(centres.begin(), centres.end(), other) > 0) ++other;
    Cell smaller = cell;
    smaller.member.erase(smaller.member.begin() + other);
    --smaller.keys;
    const std::vector<int64_t> same = smaller.Centres(smaller.Run(&SpreadInCell, 4, 8, seed), 4);
    for (int c = 0; c < 4; ++c) EXPECT_EQ(smaller.member[same[c]], cell.member[centres[c]]);
  }
}

// Equal keys are centres and join the first, their coarse centre, if no distance is positive.
TEST_P(SpreadInCellsTest, EqualKeysEverywhere) {
  for (const int64_t keys : {50, 600}) {
    Cell cell = Cell::Random(keys, 16, 5);
    for (size_t i = 16; i < cell.rows.size(); ++i) cell.rows[i] = cell.rows[i % 16];
    for (const int64_t count : {int64_t{1}, int64_t{33}, keys - 1, keys}) {
      const Spread spread = cell.Run(&SpreadInCell, count, 8);
      ExpectValid(cell, spread, count);
      EXPECT_EQ(spread.nearest, cell.Run(&reference::SpreadInCell, count, count).nearest);
      for (int64_t i = 0; i < keys; ++i) {
        if (spread.distance[i] < 0) continue;
        EXPECT_EQ(spread.distance[i], 0);
        EXPECT_EQ(spread.nearest[cell.member[i]], Cell::kFirstIndex);
      }
    }
  }
}

// Twenty keys in each of six places: places without a centre come before copies of centres, so that
// every key joins a centre of its place.
TEST_P(SpreadInCellsTest, Duplicates) {
  Cell cell = Cell::Random(120, 16, 6);
  for (int64_t i = 0; i < 120; ++i) {
    std::copy_n(cell.rows.begin() + (i % 6) * 16, 16, cell.rows.begin() + cell.member[i] * 16);
  }
  for (int64_t count : {32, 45, 120}) {
    const Spread spread = cell.Run(&SpreadInCell, count, 8);
    ExpectValid(cell, spread, count);
    const std::vector<int64_t> centres = cell.Centres(spread, count);
    for (int64_t i = 0; i < 120; ++i) {
      const int64_t centre = centres[spread.nearest[cell.member[i]] - Cell::kFirstIndex];
      EXPECT_EQ(cell.Square(i, centre), 0) << i;
    }
  }
}

TEST_P(SpreadInCellsTest, HugeAndTinyKeysAndWeights) {
  for (const float scale : {1e30f, 1e19f, 1e-20f, 1e-38f}) {
    for (const double power : {0.0, 100.0, 1000.0}) {
      SCOPED_TRACE(testing::Message() << scale << " " << power);
      Cell cell = Cell::Random(90, 16, 7);
      for (float& number : cell.rows) number *= scale;
      const double largest = *std::max_element(cell.weights.begin(), cell.weights.end());
      for (double& weight : cell.weights) weight = std::pow(weight / largest, power);
      for (const int64_t count : {40, 90}) {
        ExpectValid(cell, cell.Run(&SpreadInCell, count, 16), count);
      }
    }
  }
}

// Keys that are not finite are as far as possible from all others, on every instruction set.
TEST_P(SpreadInCellsTest, InfiniteAndNanKeys) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Cell cell = Cell::Random(90, 16, 8);
  const auto row = [&cell](int64_t i) { return cell.rows.begin() + cell.member[i] * 16; };
  row(3)[0] = kNan;
  row(20)[15] = kInfinity;
  row(21)[15] = kInfinity;
  row(40)[7] = -kInfinity;
  std::fill_n(row(60), 16, kNan);
  std::fill_n(row(61), 16, kInfinity);
  for (int64_t count : {4, 8, 40, 90}) {
    SCOPED_TRACE(count);
    const Spread expected = cell.Run(&reference::SpreadInCell, count, count);
    const Spread actual = cell.Run(&SpreadInCell, count, RoundUp(count, kCentresAtOnce));
    ExpectValid(cell, actual, count);
    EXPECT_EQ(actual.nearest, expected.nearest);
    EXPECT_THAT(actual.distance, TensorNear(expected.distance, Tolerance{0, 2e-6}));
  }
}

// The second centre follows w d^2 to the first.
TEST_P(SpreadInCellsTest, CentresFollowWeightTimesSquaredDistance) {
  constexpr int kDraws = 4'000;
  Cell cell = {.keys = 3,
               .head_dim = 8,
               .rows = std::vector<float>(48),
               .weights = std::vector<double>(6, 1.0),
               .member = {0, 2, 5}};
  cell.rows[2 * 8] = 1;
  cell.weights[2] = 2;
  cell.rows[5 * 8] = 2;
  int far = 0;
  for (int seed = 0; seed < kDraws; ++seed) {
    const std::vector<int64_t> centres = cell.Centres(cell.Run(&SpreadInCell, 2, 8, seed), 2);
    ASSERT_EQ(centres[0], 0);
    ASSERT_GE(centres[1], 1);
    far += centres[1] == 2;
  }
  // 1 * 2^2 beside 2 * 1^2: two thirds, with a standard error of 0.0075.
  EXPECT_NEAR(far / static_cast<double>(kDraws), 2.0 / 3, 0.03);
}

}  // namespace
}  // namespace chorale::kernels
