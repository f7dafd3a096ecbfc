#include "engine/backend/cpu/encode_schedule.h"

#include <utility>

#include "engine/backend/cpu/scratch.h"
#include "engine/backend/encode_blocks.h"
#include "engine/backend/flop_model.h"
#include "kernels/ops/panel_layout.h"

namespace chorale::cpu {
namespace {

// The rows whose keys and values a task copies. A multiple of the panel size, so that the keys of a
// task begin with a panel.
constexpr int64_t kCopiedRows = 1'024;
static_assert(kCopiedRows % kernels::kPanel == 0);

}  // namespace

EncodeSchedule::EncodeSchedule(const EncodeSpec& spec, const RowEncoderFit* fit, int threads) {
  const ModelConfig& config = spec.model->config();
  const auto add = [this](EncodeStage stage, RowRange rows, std::vector<double> row_flops,
                          int64_t task_rows, int64_t step_tasks) {
    stages_.push_back(
        {stage, rows, LayerSchedule(std::move(row_flops), rows.rows, task_rows, step_tasks)});
  };
  const int64_t prefix_rows = spec.prefix == nullptr ? 0 : spec.prefix->shape.rows;
  if (fit != nullptr) {
    add(EncodeStage::kFit, {.rows = fit->tasks()}, {fit->task_flops()}, 1, 1);
  }
  if (prefix_rows > 0) {
    add(EncodeStage::kCopy, {.rows = prefix_rows}, CopyPhaseFlops(config), kCopiedRows, threads);
  }
  for (const RowRange& block : EncodeBlocks(spec.features.rows, spec.append_starts, prefix_rows)) {
    const int64_t keys = block.first + block.rows;
    add(EncodeStage::kBlock, block, EncodePhaseFlops(config, keys), ChunkRowsFor(keys), threads);
  }
}

RowRange EncodeSchedule::RowsOf(int64_t task) const {
  const RowRange of_stage = schedule().RowsOf(task);
  return {.first = rows().first + of_stage.first, .rows = of_stage.rows};
}

int64_t EncodeSchedule::EndBatch() {
  LayerSchedule& schedule = stages_[current_].schedule;
  const int64_t steps = schedule.EndBatch();
  if (schedule.done()) ++current_;
  return steps;
}

}  // namespace chorale::cpu
