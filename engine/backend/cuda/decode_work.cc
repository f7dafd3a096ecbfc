#include "engine/backend/cuda/decode_work.h"

#include <algorithm>
#include <utility>

#include "base/require.h"
#include "engine/backend/flop_model.h"
#include "engine/backend/tile_requirements.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

using kernels::cuda::kTilePaths;
using kernels::cuda::PathTile;
using kernels::cuda::Tile;

StepOutputsLayout::StepOutputsLayout(int64_t steps, int64_t paths, int64_t components) {
  constexpr int64_t kOutputsAlignment = 16;
  ArenaLayout arena(kOutputsAlignment);
  log_densities = arena.Take<double>(steps * paths);
  values = arena.Take<float>(steps * paths);
  mixtures = arena.Take<float>(steps * paths * 3 * components);
  bytes = arena.bytes();
}

DecodeWork::DecodeWork(DecodeSpec spec, Device& device)
    : spec_(std::move(spec)),
      model_(AsDeviceModel(*spec_.tile.context->model)),
      positions_(RequirePositions(spec_.tile)),
      layout_(model_.shape(), positions_, spec_.tile.paths, PathBufferLayout::Use::kDecode),
      memory_(device.BufferAt(spec_.buffer)),
      context_(KeysOf(*spec_.tile.context, model_.shape(), device)),
      values_(positions_ * spec_.tile.paths),
      log_densities_(values_.size()) {
  Require(paths() <= kTilePaths, "a tile has at most tile_paths() paths");
  RequirePathValues(spec_);
  Require(spec_.buffer.bytes >= layout_.bytes, "the buffer range holds the tile's buffer");
  UploadTile(layout_, memory_, spec_.tile, spec_.forced_values, device);
  device.Upload(layout_.path_numbers.At(memory_), spec_.path_numbers.data(),
                paths() * static_cast<int64_t>(sizeof(uint64_t)));
  if (spec_.tile.keeps_mixtures()) {
    mixtures_ = Mixtures((positions_ - spec_.tile.first_mixture) * spec_.tile.paths,
                         model_.shape().components);
  }
}

double DecodeWork::next_flops(int64_t steps) const {
  return DecodeFlops(model_.config(), paths(), context().keys(), steps_done_, steps);
}

double DecodeWork::next_step_flops() const {
  if (done()) return 0;
  return DecodeStepFlops(model_.config(), paths(), context().keys(), steps_done_);
}

MixtureSpan DecodeWork::mixture(int64_t path, int64_t position) const {
  const int64_t kept = position - spec_.tile.first_mixture;
  Require(kept >= 0 && position < steps_done_, "the mixture is kept, and the position is done");
  return mixtures_.Get(kept * paths() + path);
}

Tile DecodeWork::NextTile() const {
  Tile tile = TileOfPaths(layout_, memory_, context_, {0, paths()});
  tile.visible_query = static_cast<int32_t>(steps_done_);
  tile.visible_buffer = tile.visible_query;
  tile.append_position = tile.visible_query - 1;
  return tile;
}

PathTile DecodeWork::NextPathTile(int64_t steps, char* outputs) const {
  const StepOutputsLayout layout = OutputsLayout(steps);
  PathTile tile = PathTileOf(layout_, memory_, spec_.tile, {0, paths()});
  tile.seed = spec_.seed;
  tile.path_numbers = layout_.path_numbers.At(memory_);
  tile.position = static_cast<int32_t>(steps_done_);
  tile.token_position = tile.position - 1;
  tile.steps_left = static_cast<int32_t>(steps);
  tile.first_emitted = tile.position;
  tile.emitted_densities = layout.log_densities.At(outputs);
  tile.emitted_values = layout.values.At(outputs);
  if (KeepsNext()) tile.emitted_mixtures = layout.mixtures.At(outputs);
  tile.first_drawn = static_cast<int32_t>(spec_.forced_positions());
  return tile;
}

StepOutputsLayout DecodeWork::OutputsLayout(int64_t steps) const {
  return {steps, paths(), KeepsNext() ? model_.shape().components : 0};
}

int64_t DecodeWork::ConsumeOutputs(int64_t steps, const char* outputs) {
  const StepOutputsLayout layout = OutputsLayout(steps);
  const int64_t first = steps_done_ * paths();
  const int64_t rows = steps * paths();
  std::copy_n(layout.values.At(outputs), rows, values_.begin() + first);
  std::copy_n(layout.log_densities.At(outputs), rows, log_densities_.begin() + first);
  if (KeepsNext()) {
    mixtures_.Set(
        first - spec_.tile.first_mixture * paths(),
        absl::MakeConstSpan(layout.mixtures.At(outputs), rows * 3 * model_.shape().components));
  }
  steps_done_ += steps;
  return layout.bytes;
}

}  // namespace chorale::cuda
