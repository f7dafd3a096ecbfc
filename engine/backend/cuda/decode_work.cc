#include "engine/backend/cuda/decode_work.h"

#include <algorithm>
#include <utility>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/flop_model.h"
#include "kernels/cuda/layout/layout.h"

namespace chorale::cuda {

using kernels::cuda::kTilePaths;
using kernels::cuda::PathTile;
using kernels::cuda::Tile;

DecodeWork::DecodeWork(DecodeSpec spec, Device& device)
    : spec_(std::move(spec)),
      model_(AsDeviceModel(*spec_.tile.context->model)),
      targets_(spec_.tile.targets->rows()),
      layout_(model_.shape(), targets_, spec_.tile.paths, TileMemory::Use::kDecode),
      memory_(device.BufferAt(spec_.buffer)),
      context_(reinterpret_cast<uint16_t*>(device.ContextAt(spec_.tile.context->kv))),
      values_(targets_ * spec_.tile.paths),
      log_densities_(values_.size()) {
  RequireTile(spec_.tile, kTilePaths);
  Require(spec_.given.empty() || spec_.given.size() == values_.size(), "given is [T, paths]");
  Require(spec_.buffer.bytes >= layout_.bytes, "the buffer range holds the tile's buffer");
  UploadTile(layout_, memory_, spec_.tile, spec_.given, device);
  if (spec_.tile.keep_mixtures) {
    mixtures_ = Mixtures(targets_ * spec_.tile.paths, model_.shape().components);
  }
}

double DecodeWork::next_step_flops() const {
  if (done()) return 0;
  const double keys = static_cast<double>(context_rows() + steps_done_);
  return static_cast<double>(paths()) *
         PathStepFlops(model_.config(), steps_done_ == 0 ? 1 : 2, keys);
}

MixtureSpan DecodeWork::mixture(int64_t path, int64_t step) const {
  Require(step < steps_done_, "the step is done");
  return mixtures_.Get(step * paths() + path);
}

Tile DecodeWork::NextTile() const {
  Tile tile = TileOfPaths(layout_, memory_, context_, context_rows(), {0, paths()});
  tile.visible_target = static_cast<int32_t>(steps_done_);
  tile.visible_buffer = tile.visible_target;
  tile.append_place = tile.visible_target - 1;
  return tile;
}

PathTile DecodeWork::NextPathTile(int64_t steps) const {
  PathTile tile = PathTileOf(layout_, memory_, spec_.tile, {0, paths()});
  tile.seed = spec_.seed;
  tile.first_path = static_cast<uint64_t>(spec_.first_path);
  tile.place = static_cast<int32_t>(steps_done_);
  tile.token_place = tile.place - 1;
  tile.steps_left = static_cast<int32_t>(steps);
  tile.first_emitted = tile.place;
  tile.draw = spec_.given.empty() ? 1 : 0;
  return tile;
}

int64_t DecodeWork::outbox_bytes(int64_t steps) const {
  const int64_t mixture_bytes =
      spec_.tile.keep_mixtures ? int64_t{3} * model_.shape().components * 4 : 0;
  return RoundUp(steps * paths() * (kValueBytes + mixture_bytes), kOutboxAlignment);
}

DecodeWork::Outbox DecodeWork::OutboxAt(char* memory, int64_t steps) const {
  Outbox outbox;
  outbox.log_densities = reinterpret_cast<double*>(memory);
  outbox.values = reinterpret_cast<float*>(outbox.log_densities + steps * paths());
  if (spec_.tile.keep_mixtures) outbox.mixtures = outbox.values + steps * paths();
  return outbox;
}

void DecodeWork::Take(int64_t steps, const Outbox& outbox) {
  const int64_t first = steps_done_ * paths();
  const int64_t rows = steps * paths();
  std::copy_n(outbox.values, rows, values_.begin() + first);
  std::copy_n(outbox.log_densities, rows, log_densities_.begin() + first);
  if (spec_.tile.keep_mixtures) {
    mixtures_.Set(first,
                  absl::MakeConstSpan(outbox.mixtures, rows * 3 * model_.shape().components));
  }
  steps_done_ += steps;
}

}  // namespace chorale::cuda
