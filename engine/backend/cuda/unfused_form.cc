#include "engine/backend/cuda/unfused_form.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/integer_math.h"
#include "engine/backend/cuda/encode_attention.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/head/unfused_head.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/unfused/unfused_rows.h"

namespace chorale::cuda {
namespace {

using kernels::cuda::kTilePaths;
using kernels::cuda::kTileRows;
using kernels::cuda::KvSplit;

int64_t RowsOf(const TileSet& set) { return int64_t{set.count} * kTileRows; }

}  // namespace

UnfusedForm::Arrays::Arrays(const KernelShape& shape, int64_t tiles, char* memory)
    : memory_(memory) {
  const int64_t rows = tiles * kTileRows;
  ArenaLayout arena(kAlignment);
  attended_ = arena.Take<uint16_t>(rows * shape.query_width());
  z_ = arena.Take<uint16_t>(rows * shape.width);
  hidden_ = arena.Take<uint16_t>(rows * shape.hidden);
  ArenaLayout head(kAlignment);
  head_parts_ = head.Take<uint16_t>(rows * 3 * shape.width);
  head_h_ = head.Take<float>(rows * shape.hidden);
  bytes_ = std::max(arena.bytes(), head.bytes());
}

UnfusedForm::UnfusedForm(const Model& model, const KernelShape& shape,
                         kernels::cuda::GemmLibrary& library, Device& device, WeightBlob& blob)
    : config_(model.config),
      shape_(shape),
      library_(library),
      device_(device),
      weights_(model, shape, blob) {}

// Identifies the library and the order of its sums. Another version of the library may sum in
// another order, and another process may select other algorithms.
std::string UnfusedForm::kv_format() const {
  return absl::StrCat(library_.description(), ", sums ", absl::Hex(gemms_.bits, absl::kZeroPad16));
}

int64_t UnfusedForm::ScratchBytes() const { return Arrays(shape_, 1, nullptr).bytes(); }

int64_t UnfusedForm::LaunchTiles(const LaunchWorkspace& scratch) const {
  return std::min(gemms_.most_tiles, scratch.bytes / ScratchBytes());
}

int64_t UnfusedForm::SplitsOfTile(int64_t tiles, int64_t largest_context,
                                  const LaunchWorkspace& scratch) const {
  const int64_t in_launch = std::min(tiles, LaunchTiles(scratch));
  const int64_t left = scratch.bytes - Arrays(shape_, in_launch, scratch.memory).bytes();
  const KvSplit split = kernels::cuda::ChooseSplit(
      in_launch, shape_, largest_context, left / (in_launch * PartialBytes(shape_)),
      device_.properties().multiprocessors, HasWgmmaAttention(shape_, device_));
  return split == KvSplit::kSplit ? kernels::cuda::MaxKvSplits(largest_context) : 1;
}

template <typename Part>
void UnfusedForm::ForParts(const TileSet& set, const LaunchWorkspace& scratch,
                           const Part& part) const {
  // The parts are as equal as possible, because a few tiles take nearly as long as many tiles.
  const int64_t parts = CeilDiv(int64_t{set.count}, LaunchTiles(scratch));
  const int64_t part_tiles = parts == 0 ? 0 : CeilDiv(int64_t{set.count}, parts);
  for (int64_t first = 0; first < set.count; first += part_tiles) {
    const int64_t count = std::min(part_tiles, set.count - first);
    part(set.Part(shape_, first, count), Arrays(shape_, count, scratch.memory), first);
  }
}

void UnfusedForm::PreAttention(int64_t layer, const TileSet& set,
                               const LaunchWorkspace& scratch) const {
  ForParts(set, scratch, [&](const TileSet& part, const Arrays& arrays, int64_t /*first*/) {
    Normalize(part, arrays, nullptr, nullptr, nullptr);
    Project(layer, part, arrays);
  });
}

// All parts use the same number of splits, because a recorded graph is identified by this number.
void UnfusedForm::AttentionAndMlp(int64_t layer, const TileSet& set,
                                  const LaunchWorkspace& scratch) const {
  const int64_t splits = SplitsOfTile(set.count, set.largest_context, scratch);
  ForParts(set, scratch, [&](const TileSet& part, const Arrays& arrays, int64_t /*first*/) {
    Attend(layer, part, splits, arrays);
    ProjectAndMlp(layer, part, arrays.attended(), arrays);
    if (!set.one_layer && layer + 1 < shape_.layers) Project(layer + 1, part, arrays);
  });
}

void UnfusedForm::PostAttention(int64_t layer, const TileSet& set, const uint16_t* attended,
                                const LaunchWorkspace& scratch) const {
  ForParts(set, scratch, [&](const TileSet& part, const Arrays& arrays, int64_t first) {
    ProjectAndMlp(layer, part, attended + first * kTileRows * shape_.query_width(), arrays);
  });
}

void UnfusedForm::Attend(int64_t layer, const TileSet& set, int64_t splits,
                         const Arrays& arrays) const {
  if (set.encodes && HasWgmmaAttention(shape_, device_)) {
    return AttendToEncoded(layer, set, shape_, arrays.attended(), device_);
  }
  const bool split = splits > 1;
  float* const partial_o = arrays.partials();
  float* const partial_ml = partial_o + splits * RowsOf(set) * shape_.query_width();
  device_.Launch(kernels::cuda::LaunchAttention,
                 {.tiles = set.tiles,
                  .q = set.q,
                  .q_stride = shape_.q_stride,
                  .partial_o = split ? partial_o : nullptr,
                  .partial_ml = split ? partial_ml : nullptr,
                  .attended = split ? nullptr : arrays.attended(),
                  .tile_count = set.count,
                  .shape = shape_,
                  .layer = set.ContextLayer(layer),
                  .num_splits = static_cast<int32_t>(splits),
                  .split = split ? KvSplit::kSplit : KvSplit::kSingle,
                  .multiprocessors = device_.properties().multiprocessors,
                  .use_wgmma = HasWgmmaAttention(shape_, device_),
                  .weighted = set.weighted},
                 "attention");
  if (!split) return;
  device_.Launch(kernels::cuda::LaunchCombinePartials,
                 {.tiles = set.tiles,
                  .partial_o = partial_o,
                  .partial_ml = partial_ml,
                  .attended = arrays.attended(),
                  .tile_count = set.count,
                  .shape = shape_},
                 "combining attention");
}

void UnfusedForm::ProjectAndMlp(int64_t layer, const TileSet& set, const uint16_t* attended,
                                const Arrays& arrays) const {
  const UnfusedLayerWeights& w = weights_.layers[layer];
  const int64_t rows = RowsOf(set);
  Multiply(gemms_.out, attended, w.out, set.x, rows, "the output projection");
  Normalize(set, arrays, nullptr, w.gamma[1], w.beta[1]);
  Multiply(gemms_.up, arrays.z(), w.up, arrays.hidden(), rows, "the first GEMM of an MLP");
  device_.Launch(kernels::cuda::LaunchGeluRows,
                 {.hidden = arrays.hidden(), .b1 = w.b1, .rows = rows, .width = shape_.hidden},
                 "the activation of an MLP");
  Multiply(gemms_.down, arrays.hidden(), w.down, set.x, rows, "the second GEMM of an MLP");
  Normalize(set, arrays, w.b2, w.gamma[2], w.beta[2]);
}

// Reads z, which contains x in bf16.
void UnfusedForm::Project(int64_t layer, const TileSet& set, const Arrays& arrays) const {
  const UnfusedLayerWeights& w = weights_.layers[layer];
  const int64_t rows = RowsOf(set);
  Multiply(gemms_.feature, arrays.z(), w.feature, set.x, rows, "feature attention");
  Normalize(set, arrays, nullptr, w.gamma[0], w.beta[0]);
  Multiply(gemms_.projection, arrays.z(), w.projection, set.q, rows, "the QKV projection");
  device_.Launch(kernels::cuda::LaunchStoreKv,
                 {.tiles = set.tiles,
                  .qkv = set.q,
                  .tile_count = set.count,
                  .shape = shape_,
                  .kv_layer = set.ContextLayer(layer)},
                 "storing K and V");
}

void UnfusedForm::Normalize(const TileSet& set, const Arrays& arrays, const float* bias,
                            const float* gamma, const float* beta) const {
  device_.Launch(kernels::cuda::LaunchNormalizeRows,
                 {.x = set.x,
                  .z = arrays.z(),
                  .bias = bias,
                  .gamma = gamma,
                  .beta = beta,
                  .rows = RowsOf(set),
                  .width = shape_.width,
                  .epsilon = config_.layer_norm_eps},
                 "a layer norm");
}

void UnfusedForm::Head(const TileSet& set, float* mixtures, const LaunchWorkspace& scratch) const {
  const bool of_paths = set.paths != nullptr;
  const kernels::cuda::HeadWeights& weights = weights_.head;
  ForParts(set, scratch, [&](const TileSet& part, const Arrays& arrays, int64_t first) {
    device_.Launch(kernels::cuda::LaunchHeadParts,
                   {.x = part.x,
                    .parts = arrays.head_parts(),
                    .gamma = weights.gamma,
                    .beta = weights.beta,
                    .tile_count = part.count,
                    .of_paths = of_paths,
                    .width = shape_.width,
                    .epsilon = config_.layer_norm_eps},
                   "the head's norm");
    Multiply(gemms_.head, arrays.head_parts(), weights_.head_parts, arrays.head_h(),
             int64_t{part.count} * (of_paths ? kTilePaths : kTileRows), "the head's GEMM");
    device_.Launch(kernels::cuda::LaunchUnfusedHead,
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
                    .h = arrays.head_h()},
                   "the head");
  });
}

void UnfusedForm::Multiply(const kernels::cuda::GemmPlan& plan, const uint16_t* x,
                           const uint16_t* weight, void* y, int64_t rows, const char* what) const {
  device_.Check(
      kernels::cuda::LaunchGemm(library_, plan, {.x = x, .weight = weight, .y = y, .rows = rows},
                                device_.stream()),
      what);
}

}  // namespace chorale::cuda
