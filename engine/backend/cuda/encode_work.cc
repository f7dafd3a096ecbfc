#include "engine/backend/cuda/encode_work.h"

#include <algorithm>
#include <utility>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cuda/layer_pass.h"
#include "engine/backend/flop_model.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

using kernels::cuda::kTileRows;
using kernels::cuda::Tile;

EncodeWork::EncodeWork(EncodeSpec spec, Device& device)
    : owner_(std::move(spec.model)),
      model_(AsDeviceModel(*owner_)),
      range_(spec.kv),
      context_shape_(spec.shape()),
      rows_(context_shape_.rows),
      features_(std::move(spec.features)),
      y_(std::move(spec.y)),
      fit_(model_.row_encoder().NewFit(features_, y_, device.launch_workspace())),
      fit_schedule_({fit_->task_flops()}, fit_->tasks(), 1),
      schedule_(EncodePhaseFlops(model_.config(), rows_, kTileRows,
                                 model_.row_encoder().EncodeFlops(1, features_.features)),
                CeilDiv(rows_, kTileRows), EncodeChunkTiles(model_, device)),
      layout_(model_.shape(), rows_, RowsWorkspaceLayout::Use::kEncode),
      set_(layout_.Set(device.EncodeAt(spec.workspace), rows_)) {
  Require(rows_ >= 1 && static_cast<int64_t>(y_.size()) == rows_, "y is [rows]");
  Require(spec.workspace.bytes >= layout_.bytes, "the workspace holds what is kept of the rows");
  uint16_t* const keys = device.ContextAt(range_);
  std::vector<Tile> tiles = TilesOfRows(rows_, keys, rows_);
  for (size_t i = 0; i < tiles.size(); ++i) {
    tiles[i].groups = kernels::cuda::kTileGroups;  // all groups, to fill the last key block
    tiles[i].first_row = static_cast<int32_t>(i * kTileRows);
    tiles[i].encode_rows =
        static_cast<int32_t>(std::min<int64_t>(kTileRows, rows_ - tiles[i].first_row));
  }
  device.Upload(set_.tiles, tiles.data(), set_.count * static_cast<int64_t>(sizeof(Tile)));
}

ResidentContext EncodeWork::TakeContext() {
  Require(done(), "the context is encoded");
  return {.model = owner_, .encoder_state = encoder_state_, .kv = range_, .shape = context_shape_};
}

void EncodeWork::Run(int64_t max_steps, const LaunchWorkspace& launch) {
  const Forward forward(model_, launch);
  while (max_steps > 0 && !done() && launch.device.status().ok()) {
    if (!fitted()) {
      max_steps -= RunFitTasks(max_steps, launch.device);
      continue;
    }
    schedule_.BeginBatch(1);
    const RowRange tiles = schedule_.BatchRows();
    const TileSet set = PartOf(set_, model_.shape(), tiles);
    if (schedule_.phase() == 0) {
      Embed(set, tiles, launch);
      forward.PreAttention(0, set);
    } else {
      forward.AttentionAndMlp(schedule_.phase() - 1, set);
    }
    max_steps -= schedule_.EndBatch();
    if (schedule_.phase() > 0) {
      features_ = {};
      y_ = {};
    }
  }
}

int64_t EncodeWork::RunFitTasks(int64_t max_steps, const Device& device) {
  const int64_t tasks = fit_schedule_.BeginBatch(max_steps);
  for (int64_t task = 0; task < tasks; ++task) {
    fit_->RunTask(fit_schedule_.RowsOf(task).first);
  }
  const int64_t steps = fit_schedule_.EndBatch();
  if (fitted() && device.status().ok()) {
    encoder_state_ = fit_->Finish();
    fit_.reset();
  }
  return steps;
}

// Converts the encodings to x in place. The memory of q is not used until then, and holds y.
void EncodeWork::Embed(const TileSet& set, RowRange tiles, const LaunchWorkspace& launch) {
  const int64_t first = tiles.first * kTileRows;
  const int64_t rows = std::min(tiles.rows * kTileRows, rows_ - first);
  model_.row_encoder().Encode(*encoder_state_, features_, first, rows, set.x, launch);
  float* const y = reinterpret_cast<float*>(set.q);
  launch.device.Upload(y, y_.data() + first, rows * static_cast<int64_t>(sizeof(float)));
  Forward(model_, launch).EmbedRows(set, set.x, rows, model_.context_offset(), y);
}

}  // namespace chorale::cuda
