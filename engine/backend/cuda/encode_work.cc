#include "engine/backend/cuda/encode_work.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cuda/context_layout.h"
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
      fit_(model_, features_, y_, device),
      schedule_(EncodePhaseFlops(model_.config(), rows_, kTileRows,
                                 model_.row_encoder().EncodeFlops(1, features_.features)),
                CeilDiv(rows_, kTileRows), EncodeChunkTiles(model_, device)),
      layout_(model_.shape(), rows_, RowsWorkspaceLayout::Use::kEncode),
      set_(layout_.Set(device.EncodeAt(spec.workspace), rows_, /*weighted=*/false)) {
  Require(rows_ >= 1 && static_cast<int64_t>(y_.size()) == rows_, "y is [rows]");
  Require(spec.workspace.bytes >= layout_.bytes, "the workspace holds what is kept of the rows");
  const ContextLayout layout(model_.shape(), context_shape_);
  const std::vector<Tile> tiles =
      TilesOfContextRows(rows_, layout.Keys(device.ContextAt(range_)), /*first=*/0);
  device.Upload(set_.tiles, tiles.data(), set_.count * static_cast<int64_t>(sizeof(Tile)));
}

ResidentContext EncodeWork::TakeContext() {
  Require(done(), "the context is encoded");
  return {.model = owner_, .encoder_state = fit_.state(), .kv = range_, .shape = context_shape_};
}

void EncodeWork::Run(int64_t max_steps, const LaunchWorkspace& launch) {
  const Forward forward(model_, launch);
  while (max_steps > 0 && !done() && launch.device.status().ok()) {
    if (!fit_.done()) {
      max_steps -= fit_.Run(max_steps, launch.device);
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

void EncodeWork::Embed(const TileSet& set, RowRange tiles, const LaunchWorkspace& launch) {
  const int64_t first = tiles.first * kTileRows;
  const int64_t rows = std::min(tiles.rows * kTileRows, rows_ - first);
  EmbedContextRows(model_,
                   {*fit_.state(), features_, first, absl::MakeConstSpan(y_).subspan(first, rows)},
                   set, launch);
}

}  // namespace chorale::cuda
