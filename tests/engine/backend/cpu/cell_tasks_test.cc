// The tasks that draw centres in cells.
#include "engine/backend/cpu/cell_tasks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace chorale::cpu {
namespace {

// Cells with so many keys, half of them centres, and at least one.
CentreCells Cells(const std::vector<int32_t>& keys) {
  CentreCells cells = {.key_begin = {0}, .centre_begin = {0}};
  for (const int32_t count : keys) {
    cells.key_begin.push_back(cells.key_begin.back() + count);
    cells.centre_begin.push_back(cells.centre_begin.back() + std::max(count / 2, 1));
  }
  return cells;
}

// Every centre of every cell is drawn once, in the order of the rounds, and a task has at most as
// many pairs as wanted, or one group of centres.
void ExpectComplete(const std::vector<CentreCells>& heads, int64_t pairs) {
  const CellTasks tasks(heads, pairs);
  std::map<std::pair<int64_t, int64_t>, int64_t> drawn;  // by head and cell
  double shares = 0;
  for (int64_t round = 0; round < tasks.rounds(); ++round) {
    EXPECT_FALSE(tasks.Round(round).empty());
    shares += tasks.Share(round);
    std::map<std::pair<int64_t, int64_t>, int64_t> before = drawn;
    for (const CellTask& task : tasks.Round(round)) {
      ASSERT_LT(task.first_cell, task.end_cell);
      int64_t sum = 0;
      for (int64_t cell = task.first_cell; cell < task.end_cell; ++cell) {
        const int64_t centres = heads[task.head].centres(cell);
        const int64_t count = std::min(task.most_centres, centres - task.first_centre);
        EXPECT_GE(count, 1);
        // A cell is in one task of a round.
        EXPECT_EQ((before[{task.head, cell}]), task.first_centre);
        EXPECT_EQ((drawn[{task.head, cell}]), task.first_centre);
        EXPECT_EQ(task.first_centre % 8, 0);
        drawn[{task.head, cell}] += count;
        if (drawn[{task.head, cell}] < centres) EXPECT_EQ(count % 8, 0);
        sum += count * heads[task.head].keys(cell);
      }
      EXPECT_EQ(task.pairs, sum);
      if (task.end_cell - task.first_cell > 1) EXPECT_LE(sum, pairs);
      EXPECT_LE(sum, std::max(pairs, 8 * heads[task.head].keys(task.first_cell)));
    }
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  for (size_t head = 0; head < heads.size(); ++head) {
    for (int64_t cell = 0; cell < heads[head].cells(); ++cell) {
      EXPECT_EQ((drawn[{static_cast<int64_t>(head), cell}]), heads[head].centres(cell));
    }
  }
}

TEST(CellTasksTest, EveryCentreIsDrawnOnce) {
  for (const int64_t pairs : {1, 100, 5'000, 1'000'000}) {
    SCOPED_TRACE(pairs);
    ExpectComplete({Cells({1})}, pairs);
    ExpectComplete({Cells({1, 1, 700, 1}), Cells({50, 60, 70, 2, 2, 2})}, pairs);
    ExpectComplete({Cells({700, 1, 1, 600}), Cells(std::vector<int32_t>(30, 128))}, pairs);
  }
}

TEST(CellTasksTest, SmallCellsShareATask) {
  const CellTasks tasks({{Cells(std::vector<int32_t>(10, 20))}}, 800);  // 200 pairs each
  ASSERT_EQ(tasks.rounds(), 1);
  ASSERT_EQ(tasks.Round(0).size(), 3u);
  EXPECT_EQ(tasks.Round(0)[0].end_cell, 4);
  EXPECT_EQ(tasks.Round(0)[2].pairs, 400);
}

TEST(CellTasksTest, LargeCellsTakeRoundsOfTheirOwn) {
  const CellTasks tasks({{Cells({10, 200, 10}), Cells({10})}}, 3'200);  // 20,000 pairs: 100 centres
  ASSERT_EQ(tasks.rounds(), 7);
  EXPECT_EQ(tasks.Round(0).size(), 4u);
  for (int64_t round = 1; round < 7; ++round) {
    ASSERT_EQ(tasks.Round(round).size(), 1u);
    EXPECT_EQ(tasks.Round(round)[0].first_cell, 1);
    EXPECT_EQ(tasks.Round(round)[0].first_centre, 16 * round);
  }
}

}  // namespace
}  // namespace chorale::cpu
