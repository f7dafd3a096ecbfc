#include "engine/backend/cuda/wide_forward.h"

#include <algorithm>

#include "base/integer_math.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/encode_attention.h"
#include "kernels/cuda/head/wide_head.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/wide/wide_rows.h"

namespace chorale::cuda {
namespace {

using kernels::cuda::kTilePaths;
using kernels::cuda::kTileRows;
using kernels::cuda::KvSplit;

int64_t RowsOf(const TileSet& set) { return int64_t{set.count} * kTileRows; }

}  // namespace

WideForward::Scratch::Scratch(const KernelShape& shape, int64_t tiles) {
  const int64_t rows = tiles * kTileRows;
  ArenaLayout arena(kAlignment);
  attended = arena.Take<uint16_t>(rows * shape.query_width());
  z = arena.Take<uint16_t>(rows * shape.width);
  hidden = arena.Take<uint16_t>(rows * shape.hidden);
  ArenaLayout head(kAlignment);
  head_parts = head.Take<uint16_t>(rows * 3 * shape.width);
  head_h = head.Take<float>(rows * shape.hidden);
  partials = std::max(arena.bytes(), head.bytes());
}

int64_t WideForward::TileBytes(const KernelShape& shape) { return Scratch(shape, 1).partials; }

WideForward::WideForward(const WideModel& model, const ModelConfig& config,
                         const LaunchWorkspace& memory)
    : model_(model),
      shape_(model.shape()),
      config_(config),
      memory_(memory),
      device_(memory.device),
      launch_tiles_(std::min(model.most_tiles(), memory.bytes / TileBytes(model.shape()))) {}

// Splits pay while there are fewer blocks than multiprocessors: with a block for each, what splits
// write and read again costs more than their idle share.
int64_t WideForward::SplitsOfTile(int64_t tiles, int64_t largest_context) const {
  const int64_t in_launch = std::min(tiles, launch_tiles_);
  const int64_t left = memory_.bytes - Scratch(shape_, in_launch).partials;
  const KvSplit split = kernels::cuda::ChooseSplit(in_launch, shape_.heads, largest_context,
                                                   left / (in_launch * PartialBytes(shape_)),
                                                   device_.properties().multiprocessors / 2);
  return split == KvSplit::kSplit ? kernels::cuda::MaxContextSplits(largest_context) : 1;
}

template <typename Part>
void WideForward::ForParts(const TileSet& set, const Part& part) const {
  // As equal as can be: a few tiles alone would take nearly as long as many.
  const int64_t parts = CeilDiv(int64_t{set.count}, launch_tiles_);
  const int64_t part_tiles = parts == 0 ? 0 : CeilDiv(int64_t{set.count}, parts);
  for (int64_t first = 0; first < set.count; first += part_tiles) {
    const int64_t count = std::min(part_tiles, set.count - first);
    part(set.Part(shape_, first, count), Scratch(shape_, count), first);
  }
}

void WideForward::PreAttention(int64_t layer, const TileSet& set) const {
  ForParts(set, [&](const TileSet& part, const Scratch& scratch, int64_t /*first*/) {
    Normalize(part, scratch, nullptr, nullptr, nullptr);
    Project(layer, part, scratch);
  });
}

// All parts have the splits of the first: a graph that is recorded knows its number alone.
void WideForward::AttentionAndMlp(int64_t layer, const TileSet& set) const {
  const int64_t splits = SplitsOfTile(set.count, set.largest_context);
  ForParts(set, [&](const TileSet& part, const Scratch& scratch, int64_t /*first*/) {
    Attend(layer, part, splits, scratch);
    Mlp(layer, part, scratch);
    if (layer + 1 < shape_.layers) Project(layer + 1, part, scratch);
  });
}

void WideForward::Attend(int64_t layer, const TileSet& set, int64_t splits,
                         const Scratch& scratch) const {
  if (set.encodes && HasEncodeAttention()) return AttendToEncoded(layer, set, scratch);
  const bool split = splits > 1;
  float* const partial_o = reinterpret_cast<float*>(memory_.memory + scratch.partials);
  float* const partial_ml = partial_o + splits * RowsOf(set) * shape_.query_width();
  device_.Launch(kernels::cuda::LaunchAttention,
                 {.tiles = set.tiles,
                  .q = set.q,
                  .q_stride = shape_.q_stride,
                  .partial_o = split ? partial_o : nullptr,
                  .partial_ml = split ? partial_ml : nullptr,
                  .attended = split ? nullptr : At(scratch.attended),
                  .tile_count = set.count,
                  .shape = shape_,
                  .layer = static_cast<int32_t>(layer),
                  .num_splits = static_cast<int32_t>(splits),
                  .split = split ? KvSplit::kSplit : KvSplit::kSingle,
                  .multiprocessors = device_.properties().multiprocessors},
                 "attention");
  if (!split) return;
  device_.Launch(kernels::cuda::LaunchCombinePartials,
                 {.tiles = set.tiles,
                  .partial_o = partial_o,
                  .partial_ml = partial_ml,
                  .attended = At(scratch.attended),
                  .tile_count = set.count,
                  .shape = shape_},
                 "combining attention");
}

bool WideForward::HasEncodeAttention() const {
  return kernels::cuda::HasEncodeAttention(shape_.head_dim, device_.properties().compute_major);
}

void WideForward::AttendToEncoded(int64_t layer, const TileSet& set, const Scratch& scratch) const {
  device_.Launch(kernels::cuda::LaunchEncodeAttention,
                 {.tiles = set.tiles,
                  .q = set.q,
                  .q_stride = shape_.q_stride,
                  .attended = At(scratch.attended),
                  .tile_count = set.count,
                  .shape = shape_,
                  .layer = static_cast<int32_t>(layer),
                  .multiprocessors = device_.properties().multiprocessors},
                 "attention");
}

void WideForward::Mlp(int64_t layer, const TileSet& set, const Scratch& scratch) const {
  const WideLayerWeights& w = model_.layers()[layer];
  const WideProducts& products = model_.products();
  const int64_t rows = RowsOf(set);
  Multiply(products.out, At(scratch.attended), w.out, set.x, rows, "the output projection");
  Normalize(set, scratch, nullptr, w.gamma[1], w.beta[1]);
  Multiply(products.up, At(scratch.z), w.up, At(scratch.hidden), rows,
           "the first product of an MLP");
  device_.Launch(kernels::cuda::LaunchGeluRows,
                 {.hidden = At(scratch.hidden), .b1 = w.b1, .rows = rows, .width = shape_.hidden},
                 "the activation of an MLP");
  Multiply(products.down, At(scratch.hidden), w.down, set.x, rows, "the second product of an MLP");
  Normalize(set, scratch, w.b2, w.gamma[2], w.beta[2]);
}

// From z, which is x in bf16.
void WideForward::Project(int64_t layer, const TileSet& set, const Scratch& scratch) const {
  const WideLayerWeights& w = model_.layers()[layer];
  const WideProducts& products = model_.products();
  const int64_t rows = RowsOf(set);
  Multiply(products.feature, At(scratch.z), w.feature, set.x, rows, "feature attention");
  Normalize(set, scratch, nullptr, w.gamma[0], w.beta[0]);
  Multiply(products.projection, At(scratch.z), w.projection, set.q, rows, "the QKV projection");
  device_.Launch(kernels::cuda::LaunchStoreKv,
                 {.tiles = set.tiles,
                  .qkv = set.q,
                  .tile_count = set.count,
                  .shape = shape_,
                  .kv_layer = static_cast<int32_t>(layer)},
                 "storing K and V");
}

void WideForward::Normalize(const TileSet& set, const Scratch& scratch, const float* bias,
                            const float* gamma, const float* beta) const {
  device_.Launch(kernels::cuda::LaunchNormalizeRows,
                 {.x = set.x,
                  .z = At(scratch.z),
                  .bias = bias,
                  .gamma = gamma,
                  .beta = beta,
                  .rows = RowsOf(set),
                  .width = shape_.width,
                  .epsilon = config_.layer_norm_eps},
                 "a layer norm");
}

void WideForward::Head(const TileSet& set, float* mixtures) const {
  const bool of_paths = set.paths != nullptr;
  const kernels::cuda::HeadWeights& weights = model_.head();
  ForParts(set, [&](const TileSet& part, const Scratch& scratch, int64_t first) {
    device_.Launch(kernels::cuda::LaunchHeadParts,
                   {.x = part.x,
                    .parts = At(scratch.head_parts),
                    .gamma = weights.gamma,
                    .beta = weights.beta,
                    .tile_count = part.count,
                    .of_paths = of_paths,
                    .width = shape_.width,
                    .epsilon = config_.layer_norm_eps},
                   "the head's norm");
    Multiply(model_.products().head, At(scratch.head_parts), model_.head_parts(),
             At(scratch.head_h), int64_t{part.count} * (of_paths ? kTilePaths : kTileRows),
             "the head's product");
    device_.Launch(kernels::cuda::LaunchWideHead,
                   {.head = {.tiles = part.tiles,
                             .paths = part.paths,
                             .mixtures = mixtures == nullptr
                                             ? nullptr
                                             : mixtures + first * kTileRows * 3 * shape_.components,
                             .weights = weights,
                             .tile_count = part.count,
                             .shape = shape_,
                             .epsilon = config_.layer_norm_eps,
                             .std_min = config_.std_min,
                             .std_max = config_.std_max},
                    .h = At(scratch.head_h)},
                   "the head");
  });
}

void WideForward::Multiply(const kernels::cuda::ProductPlan& plan, const uint16_t* x,
                           const uint16_t* weight, void* y, int64_t rows, const char* what) const {
  device_.Check(kernels::cuda::LaunchProduct(model_.library(), plan,
                                             {.x = x, .weight = weight, .y = y, .rows = rows},
                                             device_.stream()),
                what);
}

}  // namespace chorale::cuda
