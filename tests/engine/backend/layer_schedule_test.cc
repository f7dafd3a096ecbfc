#include "engine/backend/layer_schedule.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace chorale {
namespace {

// Batches of every size take every row once through every phase, and as many steps as they were
// given or the phase has left.
TEST(LayerScheduleTest, EveryRowGoesOnceThroughEveryPhase) {
  for (const int64_t rows : {1, 15, 16, 17, 48, 100}) {
    for (const int64_t max_steps : {1, 2, 3, 1'000}) {
      LayerSchedule phases({1, 1, 1}, rows, 16, 2);
      std::vector<int64_t> phases_of_row(rows, 0);
      const int64_t steps_of_phase = (rows + 31) / 32;
      int64_t steps_done = 0;
      while (!phases.done()) {
        const int64_t left = steps_of_phase - steps_done % steps_of_phase;
        const int64_t tasks = phases.BeginBatch(max_steps);
        const RowRange batch = phases.BatchRows();
        int64_t next = batch.first;
        for (int64_t task = 0; task < tasks; ++task) {
          const RowRange range = phases.RowsOf(task);
          ASSERT_GE(range.rows, 1);
          ASSERT_LE(range.rows, 16);
          ASSERT_EQ(range.first, next);
          next += range.rows;
          for (int64_t row = range.first; row < range.first + range.rows; ++row) {
            ASSERT_EQ(phases_of_row.at(row)++, phases.phase()) << row;
          }
        }
        ASSERT_EQ(next, batch.first + batch.rows);
        const int64_t steps = phases.EndBatch();
        ASSERT_EQ(steps, std::min(max_steps, left));
        steps_done += steps;
      }
      EXPECT_EQ(steps_done, 3 * steps_of_phase);
      for (const int64_t count : phases_of_row) EXPECT_EQ(count, 3);
    }
  }
}

TEST(LayerScheduleTest, StepsThroughAPhaseAreNoLargerThanTheNext) {
  LayerSchedule phases({1, 2, 2, 3}, 70, 32);
  EXPECT_EQ(phases.next_step_rows(), 32);
  EXPECT_EQ(phases.StepsThrough(0), 3);
  EXPECT_EQ(phases.StepsThrough(2), 9);
  phases.BeginBatch(2);
  phases.EndBatch();
  EXPECT_EQ(phases.next_step_rows(), 6);  // what is left of the phase; the next one begins with 32
  EXPECT_EQ(phases.StepsThrough(2), 1);

  LayerSchedule small({1, 1, 1, 1}, 6, 32);  // every step is as small
  EXPECT_EQ(small.next_step_rows(), 6);
  EXPECT_EQ(small.StepsThrough(2), 3);
}

TEST(LayerScheduleTest, StepsAtThisCostEndBeforeAPhaseOfAnotherCost) {
  LayerSchedule schedule({1, 2, 2, 3}, 70, 32);
  const auto finish_phase = [&] {
    schedule.BeginBatch(3);
    schedule.EndBatch();
  };
  EXPECT_EQ(schedule.next_step_flops(), 32);
  EXPECT_EQ(schedule.steps_at_this_cost(), 3);
  finish_phase();
  EXPECT_EQ(schedule.next_step_flops(), 64);
  EXPECT_EQ(schedule.steps_at_this_cost(), 6);
  finish_phase();
  EXPECT_EQ(schedule.steps_at_this_cost(), 3);
  finish_phase();
  EXPECT_EQ(schedule.next_step_flops(), 96);
  finish_phase();
  EXPECT_TRUE(schedule.done());
  EXPECT_EQ(schedule.next_step_flops(), 0);
  EXPECT_EQ(schedule.steps_at_this_cost(), 0);
}

// Phases of 70 rows in steps of 32, 32 and 6.
TEST(LayerScheduleTest, FlopsAreThoseOfTheRowsOfTheSteps) {
  LayerSchedule schedule({1, 2, 2, 3}, 70, 16, 2);
  EXPECT_EQ(schedule.next_flops(1), 32);
  EXPECT_EQ(schedule.next_flops(2), 64);
  EXPECT_EQ(schedule.next_flops(3), 70);
  EXPECT_EQ(schedule.next_flops(4), 70 + 2 * 32);
  EXPECT_EQ(schedule.next_flops(12), (1 + 2 + 2 + 3) * 70);
  schedule.BeginBatch(2);
  schedule.EndBatch();
  EXPECT_EQ(schedule.next_flops(1), 6);
  EXPECT_EQ(schedule.next_flops(3), 6 + 2 * 64);
  EXPECT_EQ(schedule.next_flops(7), 6 + (2 + 2) * 70);
}

}  // namespace
}  // namespace chorale
