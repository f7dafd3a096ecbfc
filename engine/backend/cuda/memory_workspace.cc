#include "engine/backend/cuda/memory_workspace.h"

#include <algorithm>
#include <numbers>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cuda/layer_pass.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/memory_set/copy_set.h"
#include "kernels/cuda/memory_set/key_importance.h"
#include "kernels/cuda/memory_set/measuring_attention.h"
#include "kernels/cuda/memory_set/merge_keys.h"
#include "kernels/cuda/memory_set/spread_in_cells.h"

namespace chorale::cuda {
namespace {

using kernels::cuda::MemoryKeys;
using kernels::cuda::Tile;

// Without pointers.
MemoryKeys KeysOf(const MemorySegment& segment) {
  return {.set_keys = static_cast<int32_t>(segment.set_keys),
          .segment_rows = static_cast<int32_t>(segment.rows)};
}

// A bound of MemoryKeys::places() of all segments, for all appends: the set is full, or fewer keys
// than a key block are padding.
int64_t MostPlaces(const ContextShape& context, const MemoryPlan& plan) {
  const int64_t full =
      RoundUp(context.memory.rows, kernels::cuda::kKeyBlockKeys) + plan.max_segment_rows();
  return std::min(full, plan.max_keys() + kernels::cuda::kKeyBlockKeys - 1);
}

}  // namespace

MemoryWorkspaceLayout::MemoryWorkspaceLayout(const KernelShape& shape, const ContextShape& context,
                                             const MemoryPlan& plan)
    : segment(shape, plan.max_segment_rows(), RowsWorkspaceLayout::Use::kEncode),
      measuring(shape, plan.measuring_rows(), RowsWorkspaceLayout::Use::kEncode) {
  const int64_t heads = shape.kv_heads;
  const int64_t places = MostPlaces(context, plan);
  const int64_t keys = plan.max_keys();
  ArenaLayout arena(kAlignment);
  segment_rows = arena.Take<char>(segment.bytes);
  kv = arena.Take<uint16_t>(shape.ContextElements(places));
  log_weights = arena.Take<float>(heads * kernels::cuda::ContextWeights(places));
  member = arena.Take<int32_t>(heads * keys);
  group_begin = arena.Take<int32_t>(heads * (context.memory.rows + 1));
  if (plan.measuring_rows() > 0) {
    const int64_t rows = plan.measuring_rows();
    new_log_weights = arena.Take<float>(heads * context.memory.rows);
    measuring_rows = arena.Take<char>(measuring.bytes);
    encodings = arena.Take<float>(rows * shape.width);
    hidden_places = arena.Take<int32_t>(rows * heads);
    attended =
        arena.Take<uint16_t>(measuring.count * kernels::cuda::kTileRows * shape.query_width());
    out = arena.Take<float>(rows * shape.query_width());
    lse = arena.Take<float>(rows * shape.heads);
    importance = arena.Take<double>(heads * places);
  } else {
    weight = arena.Take<double>(heads * keys);
    distance = arena.Take<float>(heads * keys);
    nearest = arena.Take<int32_t>(heads * keys);
    const int64_t cells = plan.Cells(keys);
    centres = arena.Take<int32_t>(heads * cells);
    candidates = arena.Take<kernels::cuda::SpreadCandidate>(kernels::cuda::SpreadCandidates(heads));
    cell_member = arena.Take<int32_t>(heads * keys);
    cell_begin = arena.Take<int32_t>(heads * (cells + 1));
    centre_begin = arena.Take<int32_t>(heads * (cells + 1));
    scratch = arena.Take<char>(std::max(kernels::cuda::DivideCentresScratch(keys, cells, heads),
                                        kernels::cuda::SpreadInCellsScratch(keys, cells, shape)));
  }
  bytes = arena.bytes();
}

MemoryWorkspace::MemoryWorkspace(const KernelShape& shape, const ContextShape& context,
                                 const MemoryPlan& plan, char* memory, Device& device)
    : shape_(shape),
      plan_(plan),
      set_keys_(context.memory.rows),
      measuring_count_(plan.measuring_rows()),
      layout_(shape, context, plan),
      memory_(memory),
      device_(device) {
  if (measuring_count_ == 0) return;
  measuring_rows_ =
      layout_.measuring.Set(layout_.measuring_rows.At(memory_), MostPlaces(context, plan),
                            /*weighted=*/true);
  measuring_rows_.encodes = false;
  measuring_rows_.one_layer = true;
  // Nobody reads their context: Attend() has its own parameters.
  const std::vector<Tile> tiles = TilesOfRows(measuring_count_, {});
  device_.Upload(measuring_rows_.tiles, tiles.data(),
                 measuring_rows_.count * static_cast<int64_t>(sizeof(Tile)));
}

void MemoryWorkspace::BeginSegment(const MemorySegment& segment) {
  keys_ = KeysOf(segment);
  keys_.kv = layout_.kv.At(memory_);
  keys_.log_weights = layout_.log_weights.At(memory_);
  const std::vector<Tile> tiles = TilesOfContextRows(
      {.first = keys_.first_row(), .rows = segment.rows}, {.kv = keys_.kv,
                                                           .log_weights = keys_.log_weights,
                                                           .keys = keys_.places(),
                                                           .capacity = keys_.places()});
  segment_rows_ =
      layout_.segment.Set(layout_.segment_rows.At(memory_), keys_.places(), /*weighted=*/true);
  segment_rows_.one_layer = true;
  segment_rows_.count = static_cast<int32_t>(tiles.size());
  device_.Upload(segment_rows_.tiles, tiles.data(),
                 segment_rows_.count * static_cast<int64_t>(sizeof(Tile)));
}

void MemoryWorkspace::CopySet(const LayerKeys& set, absl::Span<const int32_t> hidden_keys) {
  std::vector<int32_t> places(hidden_keys.begin(), hidden_keys.end());
  for (int32_t& place : places) {
    if (place >= 0) place = keys_.PlaceOf(place);
  }
  if (!places.empty()) {
    device_.Upload(layout_.hidden_places.At(memory_), places.data(),
                   static_cast<int64_t>(places.size() * sizeof(int32_t)));
  }
  device_.Launch(
      kernels::cuda::LaunchCopySet,
      {.keys = keys_, .set_kv = set.kv, .set_log_weights = set.log_weights, .shape = shape_},
      "copying a memory set");
}

const uint16_t* MemoryWorkspace::Attend() {
  uint16_t* const attended = layout_.attended.At(memory_);
  device_.Launch(kernels::cuda::LaunchMeasuringAttention,
                 {.keys = keys_,
                  .q = measuring_rows_.q,
                  .q_stride = shape_.q_stride,
                  .hidden_places = layout_.hidden_places.At(memory_),
                  .attended = attended,
                  .out = layout_.out.At(memory_),
                  .lse = layout_.lse.At(memory_),
                  .rows = static_cast<int32_t>(measuring_count_),
                  .shape = shape_},
                 "attention of measuring rows");
  return attended;
}

void MemoryWorkspace::Measure(RowRange key_blocks) {
  device_.Launch(kernels::cuda::LaunchKeyImportance,
                 {.keys = keys_,
                  .q = measuring_rows_.q,
                  .q_stride = shape_.q_stride,
                  .hidden_places = layout_.hidden_places.At(memory_),
                  .out = layout_.out.At(memory_),
                  .lse = layout_.lse.At(memory_),
                  .importance = layout_.importance.At(memory_),
                  .rows = static_cast<int32_t>(measuring_count_),
                  .first_key_block = static_cast<int32_t>(key_blocks.first),
                  .end_key_block = static_cast<int32_t>(key_blocks.first + key_blocks.rows),
                  .shape = shape_},
                 "the importance of keys");
}

void MemoryWorkspace::DownloadImportance(std::vector<double>* importance) {
  importance->resize(int64_t{shape_.kv_heads} * keys_.places());
  device_.Download(importance->data(), layout_.importance.At(memory_),
                   static_cast<int64_t>(importance->size() * sizeof(double)));
}

void MemoryWorkspace::Spread(RowRange centres, uint64_t seed, uint32_t stream) {
  device_.Launch(kernels::cuda::LaunchSpreadKeys,
                 {.keys = keys_,
                  .weight = layout_.weight.At(memory_),
                  .distance = layout_.distance.At(memory_),
                  .nearest = layout_.nearest.At(memory_),
                  .centres = layout_.centres.At(memory_),
                  .candidates = layout_.candidates.At(memory_),
                  .centre_count = coarse_centres(),
                  .first_centre = static_cast<int32_t>(centres.first),
                  .end_centre = static_cast<int32_t>(centres.first + centres.rows),
                  .seed = seed,
                  .first_stream = stream,
                  .shape = shape_},
                 "coarse centres of keys");
}

kernels::cuda::CentreCells MemoryWorkspace::Cells() const {
  return {.keys = {.member = layout_.cell_member.At(memory_),
                   .group_begin = layout_.cell_begin.At(memory_),
                   .n = keys_.keys(),
                   .groups = coarse_centres()},
          .centre_begin = layout_.centre_begin.At(memory_)};
}

void MemoryWorkspace::Divide() {
  device_.Launch(kernels::cuda::LaunchDivideCentres,
                 {.nearest = layout_.nearest.At(memory_),
                  .distance = layout_.distance.At(memory_),
                  .weight = layout_.weight.At(memory_),
                  .cells = Cells(),
                  .scratch = layout_.scratch.At(memory_),
                  .centre_count = static_cast<int32_t>(set_keys_),
                  .kv_heads = shape_.kv_heads,
                  .shared_bytes = device_.properties().shared_bytes_per_block},
                 "cells of keys");
}

void MemoryWorkspace::SpreadCells(RowRange cells, uint64_t seed, uint32_t stream) {
  has_new_log_weights_ = false;
  device_.Launch(kernels::cuda::LaunchSpreadInCells,
                 {.keys = keys_,
                  .weight = layout_.weight.At(memory_),
                  .centres = layout_.centres.At(memory_),
                  .cells = Cells(),
                  .groups = Groups(),
                  .scratch = layout_.scratch.At(memory_),
                  .first_cell = static_cast<int32_t>(cells.first),
                  .end_cell = static_cast<int32_t>(cells.first + cells.rows),
                  .seed = seed,
                  .first_stream = stream,
                  .shape = shape_,
                  .shared_bytes = device_.properties().shared_bytes_per_block},
                 "centres of cells");
}

kernels::cuda::KeyGroups MemoryWorkspace::Groups() const {
  return {.member = layout_.member.At(memory_),
          .group_begin = layout_.group_begin.At(memory_),
          .n = keys_.keys(),
          .groups = static_cast<int32_t>(kept_keys())};
}

void MemoryWorkspace::UploadGroups(absl::Span<const KeyGroups> groups) {
  const auto upload = [this](auto* to, const auto& from) {
    device_.Upload(to, from.data(), static_cast<int64_t>(from.size() * sizeof(from[0])));
  };
  has_new_log_weights_ = !groups[0].log_weights.empty();
  for (int64_t head = 0; head < shape_.kv_heads; ++head) {
    const KeyGroups& of_head = groups[head];
    Require(of_head.groups() == kept_keys(), "a head keeps M keys, or all");
    upload(layout_.member.At(memory_) + head * keys_.keys(), of_head.member);
    upload(layout_.group_begin.At(memory_) + head * (kept_keys() + 1), of_head.group_begin);
    if (!has_new_log_weights_) continue;
    std::vector<float> log_weights = of_head.log_weights;
    for (float& log_weight : log_weights) log_weight *= std::numbers::log2e_v<float>;
    upload(layout_.new_log_weights.At(memory_) + head * kept_keys(), log_weights);
  }
}

void MemoryWorkspace::Store(RowRange groups, const LayerKeys& set) {
  device_.Launch(
      kernels::cuda::LaunchMergeKeys,
      {.keys = keys_,
       .groups = Groups(),
       .new_log_weights = has_new_log_weights_ ? layout_.new_log_weights.At(memory_) : nullptr,
       .set_kv = set.kv,
       .set_log_weights = set.log_weights,
       .first_group = static_cast<int32_t>(groups.first),
       .end_group = static_cast<int32_t>(groups.first + groups.rows),
       .shape = shape_},
      "storing a memory set");
}

}  // namespace chorale::cuda
