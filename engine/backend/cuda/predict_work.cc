#include "engine/backend/cuda/predict_work.h"

#include <algorithm>
#include <utility>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cuda/context_layout.h"
#include "engine/backend/cuda/layer_pass.h"
#include "engine/backend/cuda/query_rows_work.h"
#include "engine/backend/flop_model.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

using kernels::cuda::kTileRows;
using kernels::cuda::Tile;

PredictWork::PredictWork(PredictSpec spec, Device& device)
    : spec_(std::move(spec)),
      model_(AsDeviceModel(*spec_.context->model)),
      schedule_(PredictPhaseFlops(model_.config(), spec_.context->shape.keys(), kTileRows),
                CeilDiv(spec_.rows, kTileRows), ChunkTiles(model_, device)),
      layout_(model_.shape(), spec_.rows, RowsWorkspaceLayout::Use::kPredict),
      memory_(device.BufferAt(spec_.buffer)),
      set_(layout_.Set(memory_, spec_.context->shape.keys(), spec_.context->shape.reduced())),
      mixtures_(spec_.rows, model_.shape().components) {
  Require(spec_.first_row >= 0 && spec_.rows >= 1 &&
              spec_.first_row + spec_.rows <= spec_.query_rows->rows(),
          "the rows to predict are query rows");
  Require(spec_.buffer.bytes >= layout_.bytes, "the buffer range holds what is kept");
  const std::vector<Tile> tiles =
      TilesOfRows(spec_.rows, KeysOf(*spec_.context, model_.shape(), device));
  device.Upload(set_.tiles, tiles.data(), set_.count * static_cast<int64_t>(sizeof(Tile)));
}

MixtureSpan PredictWork::mixture(int64_t row) const {
  Require(done(), "the rows are done");
  return mixtures_.Get(row);
}

void PredictWork::Run(int64_t max_steps, const LaunchWorkspace& launch) {
  const Forward forward(model_, launch);
  const KernelShape& shape = model_.shape();
  float* const mixtures = layout_.mixtures.At(memory_);
  for (; max_steps > 0 && !done() && launch.device.status().ok(); --max_steps) {
    schedule_.BeginBatch(1);
    const RowRange tiles = schedule_.BatchRows();
    const TileSet set = PartOf(set_, shape, tiles);
    const int64_t first = tiles.first * kTileRows;
    if (schedule_.phase() == 0) {
      const float* const encodings = AsEncodedQueryRows(*spec_.query_rows).encodings() +
                                     (spec_.first_row + first) * shape.width;
      const int64_t rows = std::min(tiles.rows * kTileRows, spec_.rows - first);
      forward.EmbedRows(set, encodings, rows, model_.offsets(), nullptr);
      forward.PreAttention(0, set);
    } else {
      RunPhase(forward, schedule_.phase(), shape.layers, set,
               mixtures + first * 3 * shape.components);
    }
    schedule_.EndBatch();
  }
  if (!done()) return;
  raw_mixtures_.resize(spec_.rows * 3 * shape.components);
  launch.device.Download(raw_mixtures_.data(), mixtures,
                         static_cast<int64_t>(raw_mixtures_.size() * sizeof(float)));
}

void PredictWork::Collect() {
  if (!done()) return;
  mixtures_.Set(0, raw_mixtures_);
  raw_mixtures_ = {};
}

}  // namespace chorale::cuda
