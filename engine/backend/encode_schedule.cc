#include "engine/backend/encode_schedule.h"

#include <iterator>
#include <utility>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/encode_blocks.h"
#include "engine/backend/flop_model.h"

namespace chorale {

EncodeSchedule::EncodeSchedule(const EncodeSpec& spec, const EncodeTasks& tasks) {
  const ModelConfig& config = spec.model->config();
  const int64_t prefix_rows = spec.prefix_rows();
  if (tasks.fit_tasks > 0) {
    stages_.push_back({.stage = EncodeStage::kFit,
                       .rows = {.rows = tasks.fit_tasks},
                       .first = 0,
                       .schedule = LayerSchedule({tasks.fit_task_flops}, tasks.fit_tasks, 1)});
  }
  if (prefix_rows > 0) {
    stages_.push_back({.stage = EncodeStage::kCopy,
                       .rows = {.rows = prefix_rows},
                       .first = 0,
                       .schedule = LayerSchedule(CopyPhaseFlops(config), prefix_rows,
                                                 tasks.copied_rows, tasks.step_tasks)});
  }
  for (const RowRange& block : EncodeBlocks(spec.features.rows, spec.append_starts, prefix_rows)) {
    const int64_t keys = block.first + block.rows;
    const int64_t first = block.first / tasks.tile_rows * tasks.tile_rows;
    std::vector<double> row_flops =
        EncodePhaseFlops(config, keys, /*unit_rows=*/1, tasks.row_encoder_flops);
    stages_.push_back(
        {.stage = EncodeStage::kBlock,
         .rows = block,
         .first = first,
         .schedule = LayerSchedule(std::move(row_flops), RoundUp(keys, tasks.tile_rows) - first,
                                   tasks.block_rows(keys), tasks.step_tasks)});
  }
}

RowRange EncodeSchedule::RowsOf(int64_t task) const {
  const RowRange of_stage = schedule().RowsOf(task);
  return {.first = stages_[current_].first + of_stage.first, .rows = of_stage.rows};
}

int64_t EncodeSchedule::EndBatch() {
  LayerSchedule& schedule = stages_[current_].schedule;
  const int64_t steps = schedule.EndBatch();
  if (schedule.done()) ++current_;
  return steps;
}

void RequireEncodeSpec(const EncodeSpec& spec) {
  Require(!spec.shape().reduced(), "the context is not reduced");
  Require(std::ssize(spec.y) == spec.features.rows, "y is [rows]");
  if (spec.prefix == nullptr) return;
  Require(spec.prefix->model == spec.model, "the prefix is of the same model");
  Require(!spec.prefix->shape.reduced(), "the prefix is not reduced");
  Require(spec.prefix->encoder_state != nullptr, "the prefix is resident");
}

}  // namespace chorale
