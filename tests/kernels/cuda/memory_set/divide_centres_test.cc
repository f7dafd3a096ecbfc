// The division of centres among cells is that of the host.
#include "kernels/cuda/memory_set/divide_centres.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "engine/backend/host/divide_centres.h"
#include "tests/kernels/cuda/device_test.h"

namespace chorale::kernels::cuda {
namespace {

// What LaunchSpreadKeys could leave: a key has joined each of the cells.
struct Joined {
  int n = 0;
  int cells = 0;
  int heads = 2;
  std::vector<int32_t> nearest = {};  // [heads, n]
  std::vector<float> distance = {};   // [heads, n]
  std::vector<double> weight = {};    // [heads, n]
};

// `largest_cells`: how much more likely the first cells are than the last ones.
Joined Random(int n, int cells, double largest_cells, uint32_t seed) {
  std::mt19937 random(seed);
  Joined joined = {.n = n, .cells = cells};
  const auto uniform = [&] { return (static_cast<double>(random() % 1'000'000) + 0.5) / 1e6; };
  for (int head = 0; head < joined.heads; ++head) {
    std::vector<int32_t> nearest(n);
    for (int key = 0; key < n; ++key) {
      nearest[key] =
          key < cells ? key : static_cast<int32_t>(std::pow(uniform(), largest_cells) * cells);
    }
    std::shuffle(nearest.begin(), nearest.end(), random);
    std::vector<bool> has_centre(cells);
    for (const int32_t cell : nearest) {
      joined.nearest.push_back(cell);
      joined.distance.push_back(has_centre[cell] ? static_cast<float>(uniform()) : -1.0f);
      joined.weight.push_back(uniform());
      has_centre[cell] = true;
    }
  }
  return joined;
}

struct Divided {
  std::vector<int32_t> member, key_begin, centre_begin;
};

class DivideCentresTest : public DeviceTest {
 protected:
  Divided Run(const Joined& joined, int count, int shared_bytes) {
    const DeviceArray<int32_t> nearest(joined.nearest), member(joined.nearest.size());
    const DeviceArray<float> distance(joined.distance);
    const DeviceArray<double> weight(joined.weight);
    const auto begins = static_cast<size_t>(joined.heads) * (joined.cells + 1);
    const DeviceArray<int32_t> key_begin(begins), centre_begin(begins);
    const DeviceArray<char> scratch(DivideCentresScratch(joined.n, joined.cells, joined.heads));
    const DivideCentresParams params = {.nearest = nearest.data(),
                                        .distance = distance.data(),
                                        .weight = weight.data(),
                                        .cells = {.keys = {.member = member.data(),
                                                           .group_begin = key_begin.data(),
                                                           .n = joined.n,
                                                           .groups = joined.cells},
                                                  .centre_begin = centre_begin.data()},
                                        .scratch = scratch.data(),
                                        .centre_count = count,
                                        .kv_heads = joined.heads,
                                        .shared_bytes = shared_bytes};
    EXPECT_TRUE(ValidateDivideCentres(params).ok()) << ValidateDivideCentres(params);
    ExpectSuccess(LaunchDivideCentres(params, stream_), "launching");
    return {member.ToHost(stream_), key_begin.ToHost(stream_), centre_begin.ToHost(stream_)};
  }

  // In shared memory, and where that is too small.
  void ExpectAsOnTheHost(const Joined& joined, int count) {
    Divided expected;
    const auto append = [](std::vector<int32_t>& to, const std::vector<int32_t>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    for (int head = 0; head < joined.heads; ++head) {
      const auto n = static_cast<size_t>(joined.n);
      const size_t at = head * n;
      const chorale::CentreCells cells =
          DivideIntoCells({joined.nearest.data() + at, n}, {joined.distance.data() + at, n},
                          {joined.weight.data() + at, n}, joined.cells, count);
      append(expected.member, cells.member);
      append(expected.key_begin, cells.key_begin);
      append(expected.centre_begin, cells.centre_begin);
    }
    for (const int shared_bytes : {99 * 1024, 16}) {
      const Divided actual = Run(joined, count, shared_bytes);
      EXPECT_EQ(actual.member, expected.member) << shared_bytes;
      EXPECT_EQ(actual.key_begin, expected.key_begin) << shared_bytes;
      EXPECT_EQ(actual.centre_begin, expected.centre_begin) << shared_bytes;
    }
  }
};

TEST_F(DivideCentresTest, CellsOfAllSizes) {
  for (const auto& [n, cells] : std::vector<std::pair<int, int>>{
           {1, 1}, {40, 40}, {100, 1}, {300, 33}, {1'000, 8}, {3'072, 24}, {2'000, 300}}) {
    for (const double largest_cells : {1.0, 4.0}) {
      SCOPED_TRACE(testing::Message() << cells << " cells of " << n << " keys, " << largest_cells);
      const Joined joined = Random(n, cells, largest_cells, 1);
      ExpectAsOnTheHost(joined, (n + cells) / 2);
    }
  }
}

TEST_F(DivideCentresTest, AnyNumberOfCentres) {
  const Joined joined = Random(200, 12, 3, 2);
  for (const int count : {12, 13, 50, 150, 198, 199, 200}) {
    SCOPED_TRACE(count);
    ExpectAsOnTheHost(joined, count);
  }
}

// Cells that get all their keys, one after the other, as others leave them more.
TEST_F(DivideCentresTest, PotentialsOfAllMagnitudes) {
  Joined joined = Random(400, 40, 1, 3);
  for (size_t i = 0; i < joined.distance.size(); ++i) {
    if (joined.distance[i] >= 0) {
      joined.distance[i] = std::pow(10.0f, static_cast<float>(joined.nearest[i] % 37 - 18));
    }
  }
  for (const int count : {40, 41, 90, 250, 399}) {
    SCOPED_TRACE(count);
    ExpectAsOnTheHost(joined, count);
  }
}

TEST_F(DivideCentresTest, EqualKeys) {
  Joined joined = Random(300, 20, 2, 4);
  for (float& square : joined.distance) square = std::min(square, 0.0f);
  ExpectAsOnTheHost(joined, 20);
  ExpectAsOnTheHost(joined, 150);
  // Equal shares, and so equal remainders; then also a cell with a potential that is soon full.
  Joined alike = {.n = 60, .cells = 6};
  for (int i = 0; i < alike.heads * alike.n; ++i) {
    alike.nearest.push_back(i % 6);
    alike.distance.push_back(i % alike.n < 6 ? -1 : 1);
    alike.weight.push_back(1);
  }
  ExpectAsOnTheHost(alike, 6 + 15);
  for (int i = 0; i < alike.heads * alike.n; ++i) {
    if (i % 6 != 2) alike.distance[i] = std::min(alike.distance[i], 0.0f);
  }
  ExpectAsOnTheHost(alike, 6 + 29);
}

TEST_F(DivideCentresTest, InvalidParametersAreRefused) {
  int32_t index = 0;
  float distance = 0;
  double weight = 0;
  char scratch = 0;
  const DivideCentresParams valid = {
      .nearest = &index,
      .distance = &distance,
      .weight = &weight,
      .cells = {.keys = {.member = &index, .group_begin = &index, .n = 20, .groups = 3},
                .centre_begin = &index},
      .scratch = &scratch,
      .centre_count = 20,
      .kv_heads = 1};
  EXPECT_TRUE(ValidateDivideCentres(valid).ok());
  const auto expect_refused = [&](const auto& change) {
    DivideCentresParams p = valid;
    change(p);
    EXPECT_FALSE(ValidateDivideCentres(p).ok());
  };
  expect_refused([](DivideCentresParams& p) { p.distance = nullptr; });
  expect_refused([](DivideCentresParams& p) { p.scratch = nullptr; });
  expect_refused([](DivideCentresParams& p) { p.cells.keys.member = nullptr; });
  expect_refused([](DivideCentresParams& p) { p.cells.keys.groups = 0; });
  expect_refused([](DivideCentresParams& p) { p.centre_count = 2; });
  expect_refused([](DivideCentresParams& p) { p.centre_count = 21; });
  expect_refused([](DivideCentresParams& p) { p.kv_heads = 0; });
}

}  // namespace
}  // namespace chorale::kernels::cuda
