// The stages of an encoding whose rows are in tiles.
#include "engine/backend/encode_schedule.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/flop_model.h"
#include "gtest/gtest.h"
#include "tests/engine/backend/backend_driver.h"
#include "tests/engine/backend/model_case.h"

namespace chorale {
namespace {

constexpr double kRowEncoderFlops = 1e5;

EncodeTasks TilesOf64() {
  return {.fit_tasks = 3,
          .fit_task_flops = 7,
          .copied_rows = 128,
          .block_rows = [](int64_t keys) { return keys < 300 ? 128 : 64; },
          .tile_rows = 64,
          .row_encoder_flops = kRowEncoderFlops};
}

struct Step {
  EncodeStage stage;
  int64_t layer;
  int64_t first;
  int64_t rows;

  bool operator==(const Step&) const = default;
};

class EncodeScheduleTest : public testing::Test {
 protected:
  // Takes the schedule to its end, step by step.
  static std::vector<Step> Steps(EncodeSchedule schedule) {
    std::vector<Step> steps;
    while (!schedule.done()) {
      schedule.BeginBatch(1);
      const RowRange rows = schedule.RowsOf(0);
      steps.push_back({schedule.stage(), schedule.layer(), rows.first, rows.rows});
      EXPECT_EQ(schedule.EndBatch(), 1);
    }
    EXPECT_EQ(schedule.next_step_flops(), 0);
    EXPECT_EQ(schedule.steps_at_this_cost(), 0);
    return steps;
  }

  BackendDriver driver_ = BackendDriver::Cpu(1);
  const ModelCase case_ = {
      .options = {.n_layers = 2}, .context_rows = 330, .append_starts = {200, 201}};
  const std::shared_ptr<const BackendModel> model_ = driver_.AddModel(MakeTestModel(case_.options));
};

TEST_F(EncodeScheduleTest, BlocksConsistOfWholeTiles) {
  using enum EncodeStage;
  EXPECT_EQ(Steps(EncodeSchedule(case_.Encoding(model_), TilesOf64())),
            (std::vector<Step>{{kFit, 0, 0, 1},
                               {kFit, 0, 1, 1},
                               {kFit, 0, 2, 1},
                               {kBlock, 0, 0, 128},
                               {kBlock, 0, 128, 128},
                               {kBlock, 1, 0, 128},
                               {kBlock, 1, 128, 128},
                               {kBlock, 0, 192, 64},
                               {kBlock, 1, 192, 64},
                               {kBlock, 0, 192, 64},
                               {kBlock, 0, 256, 64},
                               {kBlock, 0, 320, 64},
                               {kBlock, 1, 192, 64},
                               {kBlock, 1, 256, 64},
                               {kBlock, 1, 320, 64}}));
}

TEST_F(EncodeScheduleTest, ThePrefixIsCopiedWithoutAFit) {
  using enum EncodeStage;
  const auto prefix = driver_.Encode(case_.Prefix(201).Encoding(model_));
  EncodeTasks tasks = TilesOf64();
  tasks.fit_tasks = 0;
  EXPECT_EQ(Steps(EncodeSchedule(case_.Encoding(model_, prefix), tasks)),
            (std::vector<Step>{{kCopy, 0, 0, 128},
                               {kCopy, 0, 128, 73},
                               {kCopy, 1, 0, 128},
                               {kCopy, 1, 128, 73},
                               {kBlock, 0, 192, 64},
                               {kBlock, 0, 256, 64},
                               {kBlock, 0, 320, 64},
                               {kBlock, 1, 192, 64},
                               {kBlock, 1, 256, 64},
                               {kBlock, 1, 320, 64}}));
}

// Of the keys up to the end of the block, for each row of its tiles.
TEST_F(EncodeScheduleTest, StepsCostTheRowsOfTheirTiles) {
  const auto prefix = driver_.Encode(case_.Prefix(201).Encoding(model_));
  EncodeTasks tasks = TilesOf64();
  tasks.fit_tasks = 0;
  EncodeSchedule schedule(case_.Encoding(model_, prefix), tasks);
  std::vector<double> costs;
  while (!schedule.done()) {
    costs.push_back(schedule.next_step_flops());
    schedule.BeginBatch(1);
    schedule.EndBatch();
  }
  const double copied = CopyPhaseFlops(model_->config()).front();
  const std::vector<double> row =
      EncodePhaseFlops(model_->config(), case_.context_rows, 1, kRowEncoderFlops);
  EXPECT_EQ(costs,
            (std::vector<double>{128 * copied, 73 * copied, 128 * copied, 73 * copied, 64 * row[0],
                                 64 * row[0], 64 * row[0], 64 * row[1], 64 * row[1], 64 * row[1]}));
}

}  // namespace
}  // namespace chorale
