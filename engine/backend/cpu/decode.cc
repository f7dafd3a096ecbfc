#include "engine/backend/cpu/decode.h"

#include <algorithm>
#include <utility>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cpu/forward.h"
#include "engine/backend/cpu/memory_pool.h"
#include "engine/backend/flop_model.h"
#include "engine/backend/tile_requirements.h"
#include "kernels/ops/panel_layout.h"
#include "kernels/ops/random.h"

namespace chorale::cpu {
namespace {

// No row attends to the value at the last position. Keys are stored in full panels.
int64_t BufferCapacity(int64_t positions) {
  return RoundUp(std::max<int64_t>(positions - 1, 0), kernels::kPanel);
}

}  // namespace

int64_t DecodeBufferBytes(const ModelConfig& config, int64_t positions, int64_t paths) {
  const int64_t elements =
      config.n_layers * paths * LayerKvShape(config).Elements(BufferCapacity(positions));
  return std::max<int64_t>(
      RoundUp(elements * static_cast<int64_t>(sizeof(float)), MemoryPool::kAlignment),
      MemoryPool::kAlignment);
}

DecodeWork::DecodeWork(DecodeSpec spec, const float* context_kv, float* buffer)
    : spec_(std::move(spec)),
      context_(*spec_.tile.context, context_kv),
      model_(context_.model()),
      encodings_(EncodingsOf(*spec_.tile.query_rows)),
      buffer_(buffer),
      positions_(RequirePositions(spec_.tile)),
      capacity_(BufferCapacity(positions_)),
      path_stride_(LayerKvShape(model_.config()).Elements(capacity_)),
      values_(positions_ * spec_.tile.paths),
      log_densities_(values_.size()) {
  const TileSpec& tile = spec_.tile;
  Require(tile.paths <= kTilePaths, "a tile has at most tile_paths() paths");
  RequirePathValues(spec_);
  Require(spec_.buffer.bytes >= DecodeBufferBytes(model_.config(), positions_, tile.paths),
          "the buffer range holds the tile's buffer");
  if (tile.keeps_mixtures()) {
    mixtures_ = MixtureStore((positions_ - tile.first_mixture) * tile.paths,
                             model_.config().num_components);
  }
}

double DecodeWork::next_flops(int64_t steps) const {
  return DecodeFlops(model_.config(), spec_.tile.paths, context_.keys(), steps_done_, steps);
}

double DecodeWork::next_step_flops() const {
  if (done()) return 0;
  return DecodeStepFlops(model_.config(), spec_.tile.paths, context_.keys(), steps_done_);
}

MixtureSpan DecodeWork::mixture(int64_t path, int64_t position) const {
  const int64_t kept = position - spec_.tile.first_mixture;
  Require(kept >= 0 && position < steps_done_, "the mixture is kept, and the position is done");
  return mixtures_.Get(kept * spec_.tile.paths + path);
}

int64_t DecodeWork::BeginBatch(int64_t max_steps, int parallelism) {
  batch_steps_ = std::min(max_steps, positions_ - steps_done_);
  batch_tasks_ = std::clamp<int64_t>(parallelism, 1, spec_.tile.paths);
  return batch_tasks_;
}

int64_t DecodeWork::EndBatch() {
  steps_done_ += batch_steps_;
  return batch_steps_;
}

void DecodeWork::RunTask(int64_t task, Scratch& scratch) {
  const int64_t first = spec_.tile.paths * task / batch_tasks_;
  const int64_t end = spec_.tile.paths * (task + 1) / batch_tasks_;
  for (int64_t i = 0; i < batch_steps_; ++i) {
    Step({.first = first, .count = end - first}, steps_done_ + i, scratch);
  }
}

// For each path, the chunk contains query row t in an even row, followed by the buffer token with
// the value at position t - 1 in an odd row. Both attend to buffer keys 0..t-1, of which the last
// is the token's own key.
void DecodeWork::Step(PathRange paths, int64_t step, Scratch& scratch) {
  const std::vector<PackedLayer>& layers = model_.layers();
  const int64_t d = model_.config().d_model;
  const bool buffered = step > 0;
  float* x = scratch.tokens.data();
  int64_t rows = buffered ? 2 * paths.count : paths.count;
  Embed(paths, step, scratch);
  for (size_t l = 0; l < layers.size(); ++l) {
    MixFeatures(model_, layers[l], rows, x, scratch);
    if (buffered) AppendBuffer(paths, step, l, scratch);
    if (buffered && l + 1 == layers.size()) {  // nothing reads the buffer token's output
      GatherQueryTokens(rows, d, x, x);
      rows = paths.count;
      for (int64_t p = 0; p < rows; ++p)
        scratch.row_path[p] = static_cast<int32_t>(paths.first + p);
    }
    AttendRows(model_, layers[l], KvOf(l, step), rows, x, scratch);
    FeedForward(model_, layers[l], rows, x, scratch);
  }
  PredictMixtures(model_, rows, x, scratch);
  Emit(paths, step, scratch);
}

void DecodeWork::Embed(PathRange paths, int64_t step, Scratch& scratch) {
  int64_t row = 0;
  const auto add = [&](int64_t path, int64_t position, int32_t offset, float y) {
    scratch.encoding[row] = QueryRowAt(spec_.tile, path, position);
    scratch.offset[row] = offset;
    scratch.y[row] = y;
    scratch.row_path[row] = static_cast<int32_t>(path);
    scratch.row_visible[row] = static_cast<int32_t>(step);
    ++row;
  };
  const int64_t position = step - 1;
  for (int64_t path = paths.first; path < paths.first + paths.count; ++path) {
    add(path, step, TokenOffset::kQueryRow, 0);
    if (step == 0) continue;
    add(path, position, TokenOffset::Buffer(position, model_.config()),
        values_[position * spec_.tile.paths + path]);
  }
  EmbedTokens(model_, encodings_, row, scratch, scratch.tokens.data());
}

void DecodeWork::AppendBuffer(PathRange paths, int64_t step, int64_t layer, Scratch& scratch) {
  const ModelConfig& config = model_.config();
  const KvShape shape = LayerKvShape(config);
  const int64_t d = config.d_model;
  const int64_t row = 2 * config.kv_width();
  ProjectKv(model_, model_.layers()[layer], paths.count, scratch.tokens.data() + d, 2 * d, scratch);
  for (int64_t p = 0; p < paths.count; ++p) {
    AppendKv(shape, 1, scratch.key_value.data() + p * row, row,
             shape.At(BufferAt(layer, paths.first + p), capacity_), step - 1);
  }
}

void DecodeWork::Emit(PathRange paths, int64_t step, const Scratch& scratch) {
  for (int64_t p = 0; p < paths.count; ++p) {
    const int64_t path = paths.first + p;
    const int64_t at = step * spec_.tile.paths + path;
    const kernels::MixtureView mixture = MixtureOf(model_, scratch, p);
    if (step < spec_.forced_positions()) {
      values_[at] = spec_.forced_values[at];
    } else {
      const kernels::StepDraw draw =
          kernels::DrawStep(spec_.seed, spec_.path_numbers[path], static_cast<uint32_t>(step));
      values_[at] = static_cast<float>(kernels::MixtureDraw(mixture, draw.uniform, draw.normal));
    }
    log_densities_[at] = kernels::MixtureLogDensity(mixture, values_[at]);
    const int64_t first_mixture = spec_.tile.first_mixture;
    if (step < first_mixture) continue;
    mixtures_.Set((step - first_mixture) * spec_.tile.paths + path, mixture);
  }
}

float* DecodeWork::BufferAt(int64_t layer, int64_t path) const {
  return buffer_ + (layer * spec_.tile.paths + path) * path_stride_;
}

AttentionKv DecodeWork::KvOf(int64_t layer, int64_t step) const {
  AttentionKv keys = context_.Layer(layer);
  if (step == 0) return keys;
  const float* base = BufferAt(layer, 0);
  keys.buffer = LayerKvShape(model_.config()).At(base, capacity_);
  keys.buffer_path_stride = path_stride_;
  return keys;
}

}  // namespace chorale::cpu
