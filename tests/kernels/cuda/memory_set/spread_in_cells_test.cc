// Centres within cells against the float64 reference, where distances and weights are extreme, and
// after the kernels that find the cells.
#include "kernels/cuda/memory_set/spread_in_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "engine/backend/host/choose_keys.h"
#include "engine/backend/host/divide_centres.h"
#include "kernels/cuda/memory_set/spread_keys.h"
#include "kernels/ops/panel_layout.h"
#include "tests/kernels/cuda/memory_set/memory_problem.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"

namespace chorale::kernels::cuda {
namespace {

constexpr uint64_t kSeed = 5;
constexpr uint32_t kStream = 6;
constexpr int kShared = 99 * 1024;

// Of all heads.
struct Cells {
  int cells = 0;
  int count = 0;                                           // M
  std::vector<int32_t> member = {};                        // [Hkv, n]
  std::vector<int32_t> key_begin = {}, centre_begin = {};  // [Hkv, cells + 1]
  std::vector<int32_t> centres = {};                       // [Hkv, cells], coarse
  std::vector<double> weight = {};                         // [Hkv, n]
};

// Cells of so many keys, of which so many are centres, in one head; in the next head, the keys are
// in other cells.
Cells CellsOf(const MemoryProblem& problem, const std::vector<std::pair<int, int>>& sizes) {
  Cells result = {.cells = static_cast<int>(sizes.size())};
  std::mt19937 random(1);
  for (int head = 0; head < problem.shape().kv_heads; ++head) {
    std::vector<int32_t> keys(problem.n());
    std::iota(keys.begin(), keys.end(), 0);
    std::shuffle(keys.begin(), keys.end(), random);
    int first = 0;
    result.count = 0;
    for (const auto& [size, centres] : sizes) {
      std::sort(keys.begin() + first, keys.begin() + first + size);
      result.key_begin.push_back(first);
      result.centre_begin.push_back(result.count);
      result.centres.push_back(keys[first + size / 3]);
      first += size;
      result.count += centres;
    }
    EXPECT_EQ(first, problem.n());
    result.key_begin.push_back(first);
    result.centre_begin.push_back(result.count);
    result.member.insert(result.member.end(), keys.begin(), keys.end());
  }
  for (const float x : RandomTensor(static_cast<int64_t>(result.member.size()), 7)) {
    result.weight.push_back(std::exp(-std::abs(x)));
  }
  return result;
}

struct Groups {
  std::vector<int32_t> member, group_begin;  // [Hkv, n] and [Hkv, M + 1]
};

class SpreadInCellsTest : public DeviceTest {
 protected:
  // In calls of `step` cells.
  Groups Run(MemoryProblem& problem, const Cells& cells, int shared_bytes = kShared,
             int step = 1'024) {
    problem.Upload();
    const int heads = problem.shape().kv_heads;
    const DeviceArray<int32_t> member(cells.member), key_begin(cells.key_begin);
    const DeviceArray<int32_t> centre_begin(cells.centre_begin), centres(cells.centres);
    const DeviceArray<double> weight(cells.weight);
    const DeviceArray<int32_t> group_member(cells.member.size());
    const DeviceArray<int32_t> group_begin(static_cast<size_t>(heads) * (cells.count + 1));
    const DeviceArray<char> scratch(
        SpreadInCellsScratch(problem.n(), cells.cells, problem.shape()));
    SpreadInCellsParams params = {.keys = problem.keys(),
                                  .weight = weight.data(),
                                  .centres = centres.data(),
                                  .cells = {.keys = {.member = member.data(),
                                                     .group_begin = key_begin.data(),
                                                     .n = problem.n(),
                                                     .groups = cells.cells},
                                            .centre_begin = centre_begin.data()},
                                  .groups = {.member = group_member.data(),
                                             .group_begin = group_begin.data(),
                                             .n = problem.n(),
                                             .groups = cells.count},
                                  .scratch = scratch.data(),
                                  .seed = kSeed,
                                  .first_stream = kStream,
                                  .shape = problem.shape(),
                                  .shared_bytes = shared_bytes};
    for (; params.first_cell < cells.cells; params.first_cell += step) {
      params.end_cell = std::min(params.first_cell + step, cells.cells);
      EXPECT_TRUE(ValidateSpreadInCells(params).ok()) << ValidateSpreadInCells(params);
      ExpectSuccess(LaunchSpreadInCells(params, stream_), "launching");
    }
    return {group_member.ToHost(stream_), group_begin.ToHost(stream_)};
  }

  // By the float64 reference of the CPU's operation.
  static Groups Reference(const MemoryProblem& problem, const Cells& cells) {
    Groups groups;
    const int n = problem.n();
    for (int head = 0; head < problem.shape().kv_heads; ++head) {
      const HeadKeys keys = problem.Head(head);
      std::vector<int32_t> nearest(n, -1);
      for (int cell = 0; cell < cells.cells; ++cell) {
        const int at = head * (cells.cells + 1) + cell;
        const int32_t size = cells.key_begin[at + 1] - cells.key_begin[at];
        std::vector<float> distance(size);
        const int32_t count = cells.centre_begin[at + 1] - cells.centre_begin[at];
        reference::SpreadInCell(
            {.keys = keys.keys.data(),
             .weight = cells.weight.data() + static_cast<ptrdiff_t>(head) * n,
             .n = n,
             .head_dim = problem.shape().head_dim,
             .member = cells.member.data() + static_cast<ptrdiff_t>(head) * n + cells.key_begin[at],
             .cell_keys = size,
             .coarse_centre = cells.centres[head * cells.cells + cell],
             .centre_count = count,
             .first_index = cells.centre_begin[at],
             .end_centre = count,
             .distance = distance.data(),
             .nearest = nearest.data(),
             .seed = kSeed,
             .stream = kStream + static_cast<uint32_t>(head)});
      }
      const chorale::KeyGroups of_head = GroupByCentre(nearest, cells.count);
      groups.member.insert(groups.member.end(), of_head.member.begin(), of_head.member.end());
      groups.group_begin.insert(groups.group_begin.end(), of_head.group_begin.begin(),
                                of_head.group_begin.end());
    }
    return groups;
  }

  void ExpectAsInReference(MemoryProblem& problem, const Cells& cells, int shared_bytes = kShared) {
    const Groups actual = Run(problem, cells, shared_bytes);
    const Groups expected = Reference(problem, cells);
    EXPECT_EQ(actual.group_begin, expected.group_begin);
    EXPECT_EQ(actual.member, expected.member);
  }

  // No group is empty; its keys are of one cell, in their order; each key is in one group.
  static void ExpectValid(const MemoryProblem& problem, const Cells& cells, const Groups& groups) {
    const int n = problem.n();
    for (int head = 0; head < problem.shape().kv_heads; ++head) {
      const auto begin = groups.group_begin.begin() + head * (cells.count + 1);
      EXPECT_EQ(*begin, 0);
      EXPECT_EQ(begin[cells.count], n);
      for (int g = 0; g < cells.count; ++g) {
        ASSERT_LT(begin[g], begin[g + 1]) << g;
        const auto member = groups.member.begin() + head * n;
        EXPECT_TRUE(std::is_sorted(member + begin[g], member + begin[g + 1]));
      }
      for (int cell = 0; cell < cells.cells; ++cell) {
        const int at = head * (cells.cells + 1) + cell;
        const auto keys_of = [&](const std::vector<int32_t>& member) {
          std::vector<int32_t> keys(member.begin() + head * n + cells.key_begin[at],
                                    member.begin() + head * n + cells.key_begin[at + 1]);
          std::sort(keys.begin(), keys.end());
          return keys;
        };
        EXPECT_EQ(keys_of(groups.member), keys_of(cells.member));
        EXPECT_EQ(begin[cells.centre_begin[at]], cells.key_begin[at]);
      }
    }
  }
};

TEST_F(SpreadInCellsTest, AgreesWithReference) {
  for (const int head_dim : {16, 32, 64, 128}) {
    SCOPED_TRACE(head_dim);
    MemoryProblem problem({.set_keys = 70,
                           .segment_rows = 180,
                           .shape = {.heads = 4, .kv_heads = 2, .head_dim = head_dim}},
                          1);
    ExpectAsInReference(
        problem,
        CellsOf(problem, {{1, 1}, {2, 1}, {130, 86}, {7, 7}, {2, 2}, {33, 4}, {9, 8}, {66, 17}}));
  }
}

// Cells of more keys than a block has threads, in shared memory and beyond it.
TEST_F(SpreadInCellsTest, LargeCells) {
  const int shared_keys = SpreadSharedKeys(16, kShared);
  ASSERT_GT(shared_keys, 300);
  MemoryProblem problem(
      {.set_keys = 600, .segment_rows = 900, .shape = {.heads = 1, .kv_heads = 1, .head_dim = 16}},
      2);
  const int rest = 1'500 - shared_keys - 100;
  for (const int centres : {20, 100}) {
    ExpectAsInReference(problem,
                        CellsOf(problem, {{shared_keys, centres}, {100, 50}, {rest, centres + 3}}));
  }
  ExpectAsInReference(problem, CellsOf(problem, {{1'500, 40}}));
}

TEST_F(SpreadInCellsTest, TheSizeOfSharedMemoryChangesNothing) {
  MemoryProblem problem({.set_keys = 65, .segment_rows = 200}, 3);
  const Cells cells = CellsOf(problem, {{80, 50}, {5, 2}, {160, 100}, {20, 20}});
  const Groups expected = Run(problem, cells);
  for (const int shared_bytes : {227 * 1024, 24 * 1024, 4 * 1024}) {
    ASSERT_EQ(SpreadSharedKeys(32, shared_bytes) >= 160, shared_bytes > 99 * 1024);
    const Groups actual = Run(problem, cells, shared_bytes);
    EXPECT_EQ(actual.member, expected.member) << shared_bytes;
    EXPECT_EQ(actual.group_begin, expected.group_begin) << shared_bytes;
  }
}

TEST_F(SpreadInCellsTest, AnyDivisionIntoCallsHasTheSameGroups) {
  MemoryProblem problem({.set_keys = 65, .segment_rows = 100}, 4);
  const Cells cells = CellsOf(problem, {{30, 20}, {5, 2}, {60, 30}, {50, 1}, {20, 20}});
  const Groups expected = Run(problem, cells);
  for (const int step : {1, 2, 4}) {
    const Groups actual = Run(problem, cells, kShared, step);
    EXPECT_EQ(actual.member, expected.member) << step;
    EXPECT_EQ(actual.group_begin, expected.group_begin) << step;
  }
}

// Also in several passes of a block: the first of equal priorities, the first of equally near
// centres.
TEST_F(SpreadInCellsTest, EqualKeys) {
  for (const int places : {1, 6}) {
    MemoryProblem problem({.segment_rows = 700}, 5);
    const int width = problem.shape().head_dim;
    for (size_t i = 0; i < problem.all.k.size(); ++i) {
      problem.all.k[i] = problem.all.k[i / width % places * width + i % width];
    }
    Cells cells = CellsOf(problem, {{520, 60}, {80, 80}, {100, 1}});
    ExpectAsInReference(problem, cells);
    // Without weights, all priorities are equal.
    std::fill(cells.weight.begin(), cells.weight.end(), 0.0);
    const Groups groups = Run(problem, cells);
    ExpectValid(problem, cells, groups);
    if (places > 1) continue;
    const Groups expected = Reference(problem, cells);
    EXPECT_EQ(groups.member, expected.member);
    EXPECT_EQ(groups.group_begin, expected.group_begin);
  }
}

TEST_F(SpreadInCellsTest, HugeAndTinyKeysAndWeights) {
  for (const float scale :
       {1e30f, 1e19f, 1e-20f, 1e-38f, std::numeric_limits<float>::quiet_NaN()}) {
    for (const double least : {1.0, 1e-100, 1e-300}) {
      SCOPED_TRACE(testing::Message() << scale << " " << least);
      MemoryProblem problem({.set_keys = 64, .segment_rows = 56}, 6);
      for (size_t i = 0; i < problem.all.k.size(); ++i) {
        if (std::isfinite(scale) || i % 11 == 0) problem.all.k[i] *= scale;
      }
      for (const int shared_bytes : {kShared, 4 * 1024}) {
        Cells cells = CellsOf(problem, {{60, 40}, {20, 20}, {40, 3}});
        for (size_t i = 0; i < cells.weight.size(); i += 3) cells.weight[i] *= least;
        ExpectValid(problem, cells, Run(problem, cells, shared_bytes));
      }
    }
  }
}

// Coarse centres, their cells, the division of the centres, and the groups, each from what the
// kernel before has left. The last set is of more than 1,024 keys, of which some are not there yet.
TEST_F(SpreadInCellsTest, AfterTheCoarseCentres) {
  for (const auto& [set_keys, rows, count] : std::vector<std::array<int, 3>>{
           {0, 1, 1}, {0, 300, 64}, {70, 300, 70}, {100, 30, 129}, {1'024, 1'024, 1'100}}) {
    SCOPED_TRACE(testing::Message() << count << " of " << set_keys << " and " << rows);
    MemoryProblem problem({.set_keys = set_keys, .segment_rows = rows}, 7);
    const int heads = problem.shape().kv_heads;
    const int width = problem.shape().head_dim;
    // Half of the keys are near to each other: a large cell.
    for (size_t i = 0; i < problem.all.k.size(); i += 2 * width) {
      for (int d = 0; d < width; ++d) problem.all.k[i + d] /= 4;
    }
    problem.Upload();
    const auto n = static_cast<size_t>(problem.n());
    Cells cells = {.cells = (problem.n() + 127) / 128, .count = count};
    const DeviceArray<double> weight(heads * n);
    const DeviceArray<float> distance(heads * n);
    const DeviceArray<int32_t> nearest(heads * n), centres(heads * cells.cells), member(heads * n);
    const DeviceArray<SpreadCandidate> candidates(SpreadCandidates(heads));
    ExpectSuccess(LaunchSpreadKeys({.keys = problem.keys(),
                                    .weight = weight.data(),
                                    .distance = distance.data(),
                                    .nearest = nearest.data(),
                                    .centres = centres.data(),
                                    .candidates = candidates.data(),
                                    .centre_count = cells.cells,
                                    .end_centre = cells.cells,
                                    .seed = kSeed,
                                    .first_stream = kStream,
                                    .shape = problem.shape()},
                                   stream_),
                  "launching");
    const DeviceArray<int32_t> key_begin(heads * (cells.cells + 1));
    const DeviceArray<int32_t> centre_begin(heads * (cells.cells + 1));
    const DeviceArray<char> scratch(DivideCentresScratch(problem.n(), cells.cells, heads));
    ExpectSuccess(LaunchDivideCentres({.nearest = nearest.data(),
                                       .distance = distance.data(),
                                       .weight = weight.data(),
                                       .cells = {.keys = {.member = member.data(),
                                                          .group_begin = key_begin.data(),
                                                          .n = problem.n(),
                                                          .groups = cells.cells},
                                                 .centre_begin = centre_begin.data()},
                                       .scratch = scratch.data(),
                                       .centre_count = count,
                                       .kv_heads = heads},
                                      stream_),
                  "launching");
    cells.member = member.ToHost(stream_);
    cells.key_begin = key_begin.ToHost(stream_);
    cells.centre_begin = centre_begin.ToHost(stream_);
    cells.centres = centres.ToHost(stream_);
    cells.weight = weight.ToHost(stream_);
    const std::vector<int32_t> joined = nearest.ToHost(stream_);
    const std::vector<float> squares = distance.ToHost(stream_);
    for (int head = 0; head < heads; ++head) {
      const chorale::CentreCells expected =
          DivideIntoCells({joined.data() + head * n, n}, {squares.data() + head * n, n},
                          {cells.weight.data() + head * n, n}, cells.cells, count);
      const auto begin = [&](const std::vector<int32_t>& of_heads) {
        const auto first = of_heads.begin() + head * (cells.cells + 1);
        return std::vector<int32_t>(first, first + cells.cells + 1);
      };
      EXPECT_EQ(begin(cells.key_begin), expected.key_begin);
      EXPECT_EQ(begin(cells.centre_begin), expected.centre_begin);
    }
    ExpectAsInReference(problem, cells);
    ExpectValid(problem, cells, Run(problem, cells));
  }
}

TEST_F(SpreadInCellsTest, InvalidParametersAreRefused) {
  MemoryProblem problem({.segment_rows = 20}, 8);
  problem.Upload();
  double weight = 0;
  int32_t index = 0;
  int32_t other = 0;
  char scratch = 0;
  const SpreadInCellsParams valid = {
      .keys = problem.keys(),
      .weight = &weight,
      .centres = &index,
      .cells = {.keys = {.member = &index, .group_begin = &index, .n = 20, .groups = 3},
                .centre_begin = &index},
      .groups = {.member = &other, .group_begin = &index, .n = 20, .groups = 10},
      .scratch = &scratch,
      .end_cell = 3,
      .shape = problem.shape()};
  EXPECT_TRUE(ValidateSpreadInCells(valid).ok());
  const auto expect_refused = [&](const auto& change) {
    SpreadInCellsParams p = valid;
    change(p);
    EXPECT_FALSE(ValidateSpreadInCells(p).ok());
  };
  expect_refused([](SpreadInCellsParams& p) { p.weight = nullptr; });
  expect_refused([](SpreadInCellsParams& p) { p.scratch = nullptr; });
  expect_refused([](SpreadInCellsParams& p) { p.cells.centre_begin = nullptr; });
  expect_refused([](SpreadInCellsParams& p) { p.groups.member = p.cells.keys.member; });
  expect_refused([](SpreadInCellsParams& p) { p.cells.keys.n = 19; });
  expect_refused([](SpreadInCellsParams& p) { p.groups.n = 21; });
  expect_refused([](SpreadInCellsParams& p) { p.groups.groups = 2; });
  expect_refused([](SpreadInCellsParams& p) { p.first_cell = 3; });
  expect_refused([](SpreadInCellsParams& p) { p.end_cell = 4; });
  expect_refused([](SpreadInCellsParams& p) { p.shape.head_dim = 8; });
}

}  // namespace
}  // namespace chorale::kernels::cuda
