#include "engine/backend/cuda/encode_work.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cuda/layer_pass.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {
namespace {

using kernels::cuda::kKeyBlockKeys;
using kernels::cuda::kTileRows;
using kernels::cuda::Tile;
static_assert(kTileRows == kKeyBlockKeys);

// The rows whose keys and values a step copies, in whole key blocks: at most 128 MiB, which take a
// fraction of a millisecond.
constexpr int64_t kCopiedRows = 16'384;
static_assert(kCopiedRows % kKeyBlockKeys == 0);

EncodeTasks TasksOf(const DeviceModel& model, const EncodeSpec& spec, const RowEncoderFit* fit,
                    const Device& device) {
  const int64_t chunk_rows = EncodeChunkTiles(model, device) * kTileRows;
  return {.fit_tasks = fit == nullptr ? 0 : fit->tasks(),
          .fit_task_flops = fit == nullptr ? 0 : fit->task_flops(),
          .copied_rows = kCopiedRows,
          .block_rows = [chunk_rows](int64_t /*keys*/) { return chunk_rows; },
          .tile_rows = kTileRows,
          .row_encoder_flops = model.row_encoder().EncodeFlops(1, spec.features.features)};
}

}  // namespace

EncodeWork::EncodeWork(EncodeSpec spec, Device& device)
    : spec_(std::move(spec)),
      model_(AsDeviceModel(*spec_.model)),
      shape_(spec_.shape()),
      layout_(model_.shape(), shape_),
      memory_(device.ContextAt(spec_.kv)),
      fit_(NewFit(model_, spec_, device)),
      encoder_state_(spec_.prefix == nullptr ? nullptr : spec_.prefix->encoder_state),
      schedule_(spec_, TasksOf(model_, spec_, fit_.get(), device)),
      workspace_(model_.shape(), shape_.rows, RowsWorkspaceLayout::Use::kEncode) {
  Require(shape_.rows >= 1, "a context has a row");
  RequireEncodeSpec(spec_);
  Require(spec_.kv.bytes >= layout_.bytes(), "the range holds the context");
  Require(spec_.workspace.bytes >= workspace_.bytes,
          "the workspace holds what is kept of the rows");
}

std::unique_ptr<RowEncoderFit> EncodeWork::NewFit(const DeviceModel& model, const EncodeSpec& spec,
                                                  Device& device) {
  if (spec.prefix != nullptr) return nullptr;
  return model.row_encoder().NewFit(spec.features, spec.base_y(), device.launch_workspace());
}

ResidentContext EncodeWork::TakeContext() {
  Require(done(), "the context is encoded");
  return {.model = spec_.model, .encoder_state = encoder_state_, .kv = spec_.kv, .shape = shape_};
}

void EncodeWork::Run(int64_t max_steps, const LaunchWorkspace& launch) {
  while (max_steps > 0 && !done() && launch.device.status().ok()) {
    schedule_.BeginBatch(1);
    RunStep(launch);
    if (!launch.device.status().ok()) return;  // a failed fit has no state
    const int64_t stage = schedule_.stage_index();
    max_steps -= schedule_.EndBatch();
    if (schedule_.stage_index() > stage) EndStage(launch.device);
    if (done() || (schedule_.last_stage() && schedule_.layer() > 0)) {
      spec_.features = {};
      spec_.y = {};
    }
  }
}

// A step is one task.
void EncodeWork::RunStep(const LaunchWorkspace& launch) {
  const RowRange rows = schedule_.RowsOf(0);
  switch (schedule_.stage()) {
    case EncodeStage::kFit:
      return fit_->RunTask(rows.first);
    case EncodeStage::kCopy:
      return CopyRowsOfPrefix(rows, launch.device);
    case EncodeStage::kBlock:
      return EncodeRowsOfBlock(rows, launch);
  }
}

// A block, or nothing, follows any stage.
void EncodeWork::EndStage(Device& device) {
  if (fit_ != nullptr) {
    encoder_state_ = fit_->Finish();
    fit_.reset();
  }
  if (done()) return;
  ContextKeys keys = layout_.Keys(memory_);
  keys.keys = KeysOfBlock();
  const std::vector<Tile> tiles = TilesOfContextRows(schedule_.rows(), keys);
  set_ = workspace_.Set(device.EncodeAt(spec_.workspace), keys.keys, /*weighted=*/false);
  set_.count = static_cast<int32_t>(tiles.size());
  device.Upload(set_.tiles, tiles.data(), set_.count * static_cast<int64_t>(sizeof(Tile)));
}

// The key blocks of a head are contiguous in both contexts. The last one is copied with its
// padding.
void EncodeWork::CopyRowsOfPrefix(RowRange rows, Device& device) {
  const KernelShape& shape = model_.shape();
  const ContextKeys to = layout_.Keys(memory_);
  const ContextKeys from = KeysOf(*spec_.prefix, shape, device);
  const int64_t first = rows.first / kKeyBlockKeys;
  const int64_t end = CeilDiv(rows.first + rows.rows, kKeyBlockKeys);
  const int64_t elements = (end - first) * kernels::cuda::KeyBlockSize(shape.head_dim);
  const auto at = [&](const ContextKeys& keys, int64_t head) {
    return keys.kv + kernels::cuda::ContextKeyBlockAt(schedule_.layer(), head, first, keys.capacity,
                                                      shape.kv_heads, shape.head_dim);
  };
  for (int64_t head = 0; head < shape.kv_heads; ++head) {
    device.Copy(at(to, head), at(from, head), elements * static_cast<int64_t>(sizeof(uint16_t)));
  }
}

void EncodeWork::EncodeRowsOfBlock(RowRange rows, const LaunchWorkspace& launch) {
  const int64_t first_tile = schedule_.rows().first / kTileRows;
  const TileSet set =
      PartOf(set_, model_.shape(),
             {.first = rows.first / kTileRows - first_tile, .rows = rows.rows / kTileRows});
  const Forward forward(model_, launch);
  if (schedule_.layer() > 0) return forward.AttentionAndMlp(schedule_.layer() - 1, set);
  Embed(rows, set, launch);
  forward.PreAttention(0, set);
}

void EncodeWork::Embed(RowRange rows, const TileSet& set, const LaunchWorkspace& launch) {
  const int64_t count = std::min(rows.rows, KeysOfBlock() - rows.first);
  EmbedContextRows(model_,
                   {.encoder_state = *encoder_state_,
                    .features = spec_.features,
                    .first = rows.first,
                    .y = absl::MakeConstSpan(spec_.y).subspan(rows.first, count)},
                   set, launch);
}

}  // namespace chorale::cuda
