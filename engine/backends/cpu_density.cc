#include "engine/backends/cpu_density.h"

#include <algorithm>
#include <utility>

#include "engine/backends/cpu_cost.h"
#include "engine/backends/cpu_forward.h"
#include "engine/backends/require.h"
#include "kernels/layout.h"

namespace chorale {
namespace {

// The buffer token at place i sees i + 1 buffer keys, so on average T / 2 are visible; the token at
// the last place is not needed.
double PathFlops(const ModelConfig& config, int64_t context_rows, int64_t targets) {
  const double t = static_cast<double>(targets);
  const double keys = static_cast<double>(context_rows) + t / 2;
  return (t - 1) * PathStepFlops(config, 2, keys) + PathStepFlops(config, 1, keys);
}

}  // namespace

CpuDensityWork::CpuDensityWork(DensitySpec spec, const float* context_kv)
    : spec_(std::move(spec)),
      context_(*spec_.tile.context, context_kv),
      model_(context_.model()),
      encodings_(EncodingsOf(*spec_.tile.targets)),
      targets_(spec_.tile.targets->rows()),
      capacity_(targets_ - 1),
      path_stride_(kernels::RoundUp(LayerKvElements(model_.config(), capacity_), kernels::kPanel)),
      group_paths_(std::max<int64_t>(1, kChunkRows / (2 * targets_))),
      log_densities_(targets_ * spec_.tile.paths) {
  const TileSpec& tile = spec_.tile;
  Require(tile.paths >= 1 && tile.paths <= kTilePaths, "a tile has 1 to tile_paths() paths");
  Require(targets_ >= 1, "a density has targets");
  Require(tile.order.empty() || tile.order.size() == log_densities_.size(), "order is [paths, T]");
  Require(spec_.values.size() == log_densities_.size(), "values is [paths, T]");
  if (tile.keep_mixtures) {
    mixtures_ = MixtureStore(targets_ * tile.paths, model_.config().num_components);
  }
}

double CpuDensityWork::next_step_flops() const {
  return done() ? 0 : PathFlops(model_.config(), context_.rows(), targets_);
}

MixtureSpan CpuDensityWork::mixture(int64_t path, int64_t place) const {
  Require(path < paths_done_, "the path is done");
  return mixtures_.Get(path * targets_ + place);
}

int64_t CpuDensityWork::BeginRound(int64_t max_steps, int parallelism) {
  round_paths_ = std::min(max_steps, spec_.tile.paths - paths_done_);
  return kernels::CeilDiv(round_paths_, group_paths_);
}

int64_t CpuDensityWork::EndRound() {
  paths_done_ += round_paths_;
  return round_paths_;
}

void CpuDensityWork::RunTask(int64_t task, CpuScratch& scratch) {
  const int64_t first = task * group_paths_;
  const int64_t paths = std::min(group_paths_, round_paths_ - first);
  scratch.path_tokens.Reserve(2 * group_paths_ * targets_ * model_.config().d_model);
  scratch.path_kv.Reserve(group_paths_ * path_stride_);
  RunGroup({.first_path = paths_done_ + first, .rows = 2 * paths * targets_ - 1}, scratch);
}

void CpuDensityWork::RunGroup(const Group& group, CpuScratch& scratch) {
  const int64_t layers = model_.config().n_layers;
  for (int64_t layer = 0; layer < layers; ++layer) {
    // In ascending order: a row sees only buffer tokens of its own chunk and of those before.
    for (int64_t first = 0; first < group.rows; first += kChunkRows) {
      const Chunk chunk = {.first = first, .rows = std::min(kChunkRows, group.rows - first)};
      if (layer == 0) EmbedChunk(group, chunk, scratch);
      RunChunk(group, chunk, layer, scratch);
    }
  }
}

void CpuDensityWork::EmbedChunk(const Group& group, Chunk chunk, CpuScratch& scratch) {
  for (int64_t i = 0; i < chunk.rows; ++i) {
    const int64_t g = (chunk.first + i) / 2;
    const int64_t place = g % targets_;
    const int64_t path = group.first_path + g / targets_;
    const bool target = i % 2 == 0;
    scratch.encoding[i] = TargetAt(spec_.tile, path, place);
    scratch.offset[i] = target ? TokenOffset::kTarget : TokenOffset::Buffer(place, model_.config());
    scratch.y[i] = target ? 0 : spec_.values[path * targets_ + place];
  }
  EmbedTokens(model_, encodings_, chunk.rows, scratch,
              scratch.path_tokens.data() + chunk.first * model_.config().d_model);
}

void CpuDensityWork::RunChunk(const Group& group, Chunk chunk, int64_t layer, CpuScratch& scratch) {
  const CpuLayer& weights = model_.layers()[layer];
  float* x = scratch.path_tokens.data() + chunk.first * model_.config().d_model;
  MixFeatures(model_, weights, chunk.rows, x, scratch);
  AppendBuffer(chunk, layer, x, scratch);
  if (layer + 1 == model_.config().n_layers) return FinishTargets(group, chunk, x, scratch);
  SetVisible(chunk, 1, scratch);
  AttendRows(model_, weights, KeysOf(layer, scratch), chunk.rows, x, scratch);
  FeedForward(model_, weights, chunk.rows, x, scratch);
}

// K and V of the chunk's buffer tokens, but for those at a path's last place.
void CpuDensityWork::AppendBuffer(Chunk chunk, int64_t layer, const float* x, CpuScratch& scratch) {
  const ModelConfig& config = model_.config();
  const int64_t d = config.d_model;
  const int64_t tokens = chunk.rows / 2;
  if (tokens == 0 || capacity_ == 0) return;
  ProjectKeysValues(model_, model_.layers()[layer], tokens, x + d, 2 * d, scratch);
  for (int64_t i = 0; i < tokens;) {
    const int64_t g = chunk.first / 2 + i;
    const int64_t place = g % targets_;
    const int64_t n = std::min(tokens - i, targets_ - place);  // up to the end of this path
    const int64_t kept = std::min(n, capacity_ - place);
    float* base = scratch.path_kv.data() + g / targets_ * path_stride_;
    if (kept > 0) {
      AppendKeysValues(model_, scratch, i, kept, LayerKvAt(base, config, capacity_),
                       kernels::KeyLayout::kRows, place, capacity_);
    }
    i += n;
  }
}

// In the last layer nobody reads what a buffer token becomes: only targets go on.
void CpuDensityWork::FinishTargets(const Group& group, Chunk chunk, const float* x,
                                   CpuScratch& scratch) {
  const int64_t layer = model_.config().n_layers - 1;
  const CpuLayer& weights = model_.layers()[layer];
  const int64_t rows = kernels::CeilDiv(chunk.rows, 2);
  float* targets = scratch.tokens.data();
  KeepEvenRows(chunk.rows, model_.config().d_model, x, targets);
  SetVisible(chunk, 2, scratch);
  AttendRows(model_, weights, KeysOf(layer, scratch), rows, targets, scratch);
  FeedForward(model_, weights, rows, targets, scratch);
  PredictMixtures(model_, rows, targets, scratch);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t at = group.first_path * targets_ + chunk.first / 2 + i;  // in [paths, T]
    const kernels::MixtureView mixture = MixtureOf(model_, scratch, i);
    log_densities_[at] = kernels::MixtureLogDensity(mixture, spec_.values[at]);
    if (spec_.tile.keep_mixtures) mixtures_.Set(at, mixture);
  }
}

// For every row_step-th row of the chunk. A target sees the places before its own, a buffer token
// its own place too.
void CpuDensityWork::SetVisible(Chunk chunk, int64_t row_step, CpuScratch& scratch) const {
  int64_t i = 0;
  for (int64_t row = chunk.first; row < chunk.first + chunk.rows; row += row_step, ++i) {
    const int64_t g = row / 2;
    scratch.row_path[i] = static_cast<int32_t>(g / targets_);
    scratch.row_visible[i] = static_cast<int32_t>(std::min(g % targets_ + row % 2, capacity_));
  }
}

VisibleKeys CpuDensityWork::KeysOf(int64_t layer, const CpuScratch& scratch) const {
  VisibleKeys keys = context_.Layer(layer);
  if (capacity_ == 0) return keys;
  keys.buffer = LayerKvAt(scratch.path_kv.data(), model_.config(), capacity_);
  keys.buffer_capacity = capacity_;
  keys.buffer_path_stride = path_stride_;
  return keys;
}

}  // namespace chorale
