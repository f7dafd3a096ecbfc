#include "engine/backend/cpu/density.h"

#include <algorithm>
#include <utility>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cpu/forward.h"
#include "engine/backend/cpu/memory_pool.h"
#include "engine/backend/flop_model.h"
#include "engine/backend/tile_requirements.h"
#include "kernels/ops/panel_layout.h"

namespace chorale::cpu {
namespace {

// The maximum rows of a group, unless a single path has more: enough chunks for many threads, in
// little memory.
constexpr int64_t kGroupRows = 2'048;

}  // namespace

DensityLayout::DensityLayout(const ModelConfig& config, int64_t positions, int64_t paths)
    : group_paths(std::max<int64_t>(1, std::min(paths, kGroupRows / (2 * positions)))),
      capacity(positions - 1),
      path_stride(RoundUp(LayerKvShape(config).Elements(capacity), kernels::kPanel)),
      tokens(RoundUp(group_paths * 2 * positions * config.d_model, kernels::kPanel)) {}

int64_t DensityBufferBytes(const ModelConfig& config, int64_t positions, int64_t paths) {
  const int64_t bytes =
      DensityLayout(config, positions, paths).elements() * static_cast<int64_t>(sizeof(float));
  return RoundUp(bytes, MemoryPool::kAlignment);
}

DensityWork::DensityWork(DensitySpec spec, const float* context_kv, float* buffer)
    : spec_(std::move(spec)),
      context_(*spec_.tile.context, context_kv),
      model_(context_.model()),
      encodings_(EncodingsOf(*spec_.tile.query_rows)),
      positions_(RequirePositions(spec_.tile)),
      layout_(model_.config(), positions_, spec_.tile.paths),
      tokens_(buffer),
      kv_(buffer + layout_.tokens),
      schedule_(ScheduleOfGroup()),
      log_densities_(positions_ * spec_.tile.paths) {
  const TileSpec& tile = spec_.tile;
  Require(tile.paths <= kTilePaths, "a tile has at most tile_paths() paths");
  Require(spec_.values.size() == log_densities_.size(), "values is [P, paths]");
  Require(spec_.buffer.bytes >= DensityBufferBytes(model_.config(), positions_, tile.paths),
          "the buffer range holds what is kept between steps");
  if (tile.keeps_mixtures()) {
    mixtures_ = MixtureStore(positions_ * tile.paths, model_.config().num_components);
  }
}

LayerSchedule DensityWork::ScheduleOfGroup() const {
  const int64_t paths = std::min(layout_.group_paths, spec_.tile.paths - first_path_);
  return LayerSchedule(DensityPhaseFlops(model_.config(), context_.keys(), positions_),
                       2 * paths * positions_ - 1, ChunkRowsFor(context_.keys()));
}

MixtureSpan DensityWork::mixture(int64_t path, int64_t position) const {
  Require(done(), "the paths are done");
  return mixtures_.Get(IndexOf(path, position));
}

int64_t DensityWork::BeginBatch(int64_t max_steps, int parallelism) {
  return schedule_.BeginBatch(max_steps);
}

int64_t DensityWork::EndBatch() {
  const int64_t steps = schedule_.EndBatch();
  if (schedule_.done()) {
    first_path_ = std::min(first_path_ + layout_.group_paths, spec_.tile.paths);
    if (!done()) schedule_ = ScheduleOfGroup();
  }
  return steps;
}

void DensityWork::RunTask(int64_t task, Scratch& scratch) {
  const int64_t layer = schedule_.phase();
  const RowRange rows = schedule_.RowsOf(task);
  float* x = tokens_ + rows.first * model_.config().d_model;
  if (layer == head_phase()) {
    PredictQueryRows(rows, x, scratch);
    return;
  }
  if (layer == 0) {
    Embed(rows, x, scratch);
  } else {
    AttendAndFeedForward(layer - 1, rows, x, scratch);
  }
  PreAttention(layer, rows, x, scratch);
}

void DensityWork::Embed(RowRange rows, float* x, Scratch& scratch) const {
  for (int64_t i = 0; i < rows.rows; ++i) {
    const int64_t g = (rows.first + i) / 2;
    const int64_t position = g % positions_;
    const int64_t path = first_path_ + g / positions_;
    const bool query_row = i % 2 == 0;
    scratch.encoding[i] = QueryRowAt(spec_.tile, path, position);
    scratch.offset[i] =
        query_row ? TokenOffset::kQueryRow : TokenOffset::Buffer(position, model_.config());
    scratch.y[i] = query_row ? 0 : spec_.values[IndexOf(path, position)];
  }
  EmbedTokens(model_, encodings_, rows.rows, scratch, x);
}

void DensityWork::AttendAndFeedForward(int64_t layer, RowRange rows, float* x,
                                       Scratch& scratch) const {
  const PackedLayer& weights = model_.layers()[layer];
  SetVisible(rows, 1, scratch);
  AttendRows(model_, weights, KvOf(layer), rows.rows, x, scratch);
  FeedForward(model_, weights, rows.rows, x, scratch);
}

// Writes K and V of the buffer tokens, except the tokens at the last position of a path.
void DensityWork::PreAttention(int64_t layer, RowRange rows, float* x, Scratch& scratch) const {
  const ModelConfig& config = model_.config();
  const PackedLayer& weights = model_.layers()[layer];
  const KvShape shape = LayerKvShape(config);
  const int64_t d = config.d_model;
  const int64_t row = 2 * config.kv_width();
  const int64_t tokens = rows.rows / 2;
  MixFeatures(model_, weights, rows.rows, x, scratch);
  if (tokens == 0 || layout_.capacity == 0) return;
  ProjectKv(model_, weights, tokens, x + d, 2 * d, scratch);
  for (int64_t i = 0; i < tokens;) {
    const int64_t g = rows.first / 2 + i;
    const int64_t position = g % positions_;
    const int64_t n = std::min(tokens - i, positions_ - position);  // up to the end of this path
    const int64_t kept = std::min(n, layout_.capacity - position);
    float* base = LayerKvOf(layer) + g / positions_ * layout_.path_stride;
    if (kept > 0) {
      AppendKv(shape, kept, scratch.key_value.data() + i * row, row,
               shape.At(base, layout_.capacity), position);
    }
    i += n;
  }
}

// Nothing reads a buffer token's output in the last layer, so only query rows are processed.
void DensityWork::PredictQueryRows(RowRange rows, const float* x, Scratch& scratch) {
  const int64_t layer = head_phase() - 1;
  const PackedLayer& weights = model_.layers()[layer];
  const int64_t count = CeilDiv(rows.rows, 2);
  float* query_rows = scratch.tokens.data();
  GatherQueryTokens(rows.rows, model_.config().d_model, x, query_rows);
  SetVisible(rows, 2, scratch);
  AttendRows(model_, weights, KvOf(layer), count, query_rows, scratch);
  FeedForward(model_, weights, count, query_rows, scratch);
  PredictMixtures(model_, count, query_rows, scratch);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t g = rows.first / 2 + i;
    const int64_t at = IndexOf(first_path_ + g / positions_, g % positions_);
    const kernels::MixtureView mixture = MixtureOf(model_, scratch, i);
    log_densities_[at] = kernels::MixtureLogDensity(mixture, spec_.values[at]);
    if (spec_.tile.keeps_mixtures()) mixtures_.Set(at, mixture);
  }
}

// Sets the visible keys of every row_step-th row. The positions before its own are visible to a
// query row; to a buffer token, its own position as well.
void DensityWork::SetVisible(RowRange rows, int64_t row_step, Scratch& scratch) const {
  int64_t i = 0;
  for (int64_t row = rows.first; row < rows.first + rows.rows; row += row_step, ++i) {
    const int64_t g = row / 2;
    scratch.row_path[i] = static_cast<int32_t>(g / positions_);
    scratch.row_visible[i] =
        static_cast<int32_t>(std::min(g % positions_ + row % 2, layout_.capacity));
  }
}

AttentionKv DensityWork::KvOf(int64_t layer) const {
  AttentionKv keys = context_.Layer(layer);
  if (layout_.capacity == 0) return keys;
  const float* base = LayerKvOf(layer);
  keys.buffer = LayerKvShape(model_.config()).At(base, layout_.capacity);
  keys.buffer_path_stride = layout_.path_stride;
  return keys;
}

}  // namespace chorale::cpu
