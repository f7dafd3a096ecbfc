#include "engine/backend/cpu/memory_workspace.h"

#include <algorithm>
#include <cassert>
#include <iterator>

#include "base/integer_math.h"
#include "base/require.h"
#include "kernels/ops/key_attention.h"
#include "kernels/ops/merge_keys.h"
#include "kernels/ops/panel_layout.h"
#include "kernels/ops/spread_in_cells.h"
#include "kernels/ops/spread_keys.h"

namespace chorale::cpu {
namespace {

// The keys and the values of one head.
template <typename T>
T* KeysOf(const KvView<T>& kv, const KvShape& shape, int64_t head) {
  return kv.keys + head * kernels::PackedKeysSize(kv.capacity, shape.head_dim);
}
template <typename T>
T* ValuesOf(const KvView<T>& kv, const KvShape& shape, int64_t head) {
  return kv.values + head * kernels::ValuesSize(kv.capacity, shape.head_dim);
}

}  // namespace

MemoryWorkspace::MemoryWorkspace(const ModelConfig& config, const ContextShape& shape,
                                 const MemoryPlan& plan, uint64_t seed)
    : config_(config),
      plan_(plan),
      shape_(LayerKvShape(config)),
      policy_(shape.memory.policy),
      set_keys_(shape.memory.rows),
      measuring_rows_(plan.measuring_rows()),
      seed_(seed),
      kv_(shape_.Elements(plan.max_keys())),
      log_weights_(shape_.heads * plan.max_keys()),
      kept_(shape_.heads),
      rows_(measuring_rows_ == 0 ? KeyRows::Sizes()
                                 : KeyRows::Sizes{.layers = config.n_layers,
                                                  .heads = shape_.heads,
                                                  .set_keys = set_keys_,
                                                  .most_keys = plan.max_keys(),
                                                  .measuring_rows = measuring_rows_}) {
  if (measuring_rows_ > 0) {
    query_.Reserve(measuring_rows_ * config.d_model);
    attended_.Reserve(measuring_rows_ * config.d_model);
    lse_.Reserve(measuring_rows_ * config.n_heads);
    importance_.Reserve(shape_.heads * plan.max_keys());
  } else {
    most_cells_ = plan.Cells(plan.max_keys());
    places_ = RoundUp(plan.max_keys(), kernels::kPanel) + most_cells_ * kernels::kPanel;
    weight_.Reserve(shape_.heads * places_);
    distance_.Reserve(shape_.heads * places_);
    nearest_.Reserve(shape_.heads * places_);
    centres_.Reserve(shape_.heads * most_cells_);
    cells_.resize(shape_.heads);
    cell_panels_.Reserve(shape_.heads * places_ * shape_.head_dim);
    cell_weight_.Reserve(shape_.heads * places_);
    cell_distance_.Reserve(shape_.heads * places_);
    nearest_place_.Reserve(shape_.heads * places_);
  }
}

void MemoryWorkspace::BeginSegment(int64_t index, const MemorySegment& segment,
                                   absl::Span<const int32_t> rows,
                                   absl::Span<const int32_t> measuring_rows) {
  Require(std::ssize(rows) == segment.rows, "rows are those of the segment");
  segment_index_ = index;
  segment_ = segment;
  rows_.BeginSegment(segment.set_keys, rows, measuring_rows);
}

void MemoryWorkspace::LoadHead(int64_t layer, int64_t head, const ContextLayer<const float>& set) {
  const int64_t before = segment_.set_keys;
  float* log_weights = LogWeights(head);
  if (before > 0) {
    // The segment's keys follow in the last panel.
    std::copy_n(KeysOf(set.kv, shape_, head), kernels::PackedKeysSize(before, shape_.head_dim),
                KeysOf(kv(), shape_, head));
    std::copy_n(ValuesOf(set.kv, shape_, head), kernels::ValuesSize(before, shape_.head_dim),
                ValuesOf(kv(), shape_, head));
    std::copy_n(set.log_weights + head * set_keys_, before, log_weights);
  }
  std::fill_n(log_weights + before, segment_.rows, 0.0f);
  if (measuring_rows_ > 0) rows_.Load(layer, head);
}

AttentionKv MemoryWorkspace::Keys() const {
  AttentionKv all;
  all.context = shape_.At(kv_.data(), keys());
  all.context_log_weights = log_weights_.data();
  all.context_rows = keys();
  return all;
}

AttentionResults MemoryWorkspace::Measured(int64_t first) {
  return {.row_hidden_key = rows_.hidden_keys().data() + first * shape_.heads,
          .query = query_.data() + first * config_.d_model,
          .out = attended_.data() + first * config_.d_model,
          .lse = lse_.data() + first * config_.n_heads};
}

void MemoryWorkspace::MeasureKeys(RowRange keys) {
  const AttentionKv all = Keys();
  const kernels::KeyAttentionParams params = {.q = query_.data(),
                                              .out = attended_.data(),
                                              .lse = lse_.data(),
                                              .row_hidden_key = rows_.hidden_keys().data(),
                                              .context_keys = all.context.keys,
                                              .context_values = all.context.values,
                                              .context_log_weights = all.context_log_weights,
                                              .importance = importance_.data(),
                                              .first_key = keys.first,
                                              .keys = keys.rows,
                                              .rows = measuring_rows_,
                                              .heads = config_.n_heads,
                                              .kv_heads = shape_.heads,
                                              .head_dim = shape_.head_dim,
                                              .context_rows = all.context_rows,
                                              .q_stride = config_.d_model,
                                              .out_stride = config_.d_model,
                                              .scale = AttentionScale(config_)};
  assert(kernels::ValidateKeyAttention(params).ok());
  kernels::KeyAttention(params);
}

void MemoryWorkspace::SpreadHead(int64_t layer, int64_t head, RowRange centres) {
  const int64_t at = head * places_;
  const kernels::SpreadKeysParams params = {
      .keys = KeysOf(kv(), shape_, head),
      .log_weights = LogWeights(head),
      .weight = weight_.data() + at,
      .distance = distance_.data() + at,
      .nearest = nearest_.data() + at,
      .centres = centres_.data() + head * most_cells_,
      .n = keys(),
      .head_dim = shape_.head_dim,
      .centre_count = coarse_centres(),
      .first_centre = centres.first,
      .end_centre = centres.first + centres.rows,
      .seed = seed_,
      .stream = MemoryStream(config_, segment_index_, layer, head)};
  assert(kernels::ValidateSpreadKeys(params).ok());
  kernels::SpreadKeys(params);
}

void MemoryWorkspace::DivideHead(int64_t head) {
  const auto n = static_cast<size_t>(keys());
  const int64_t at = head * places_;
  cells_[head] = DivideIntoCells({nearest_.data() + at, n}, {distance_.data() + at, n},
                                 {weight_.data() + at, n}, coarse_centres(), set_keys_);
}

void MemoryWorkspace::SpreadCells(int64_t layer, const CellTask& task) {
  for (int64_t cell = task.first_cell; cell < task.end_cell; ++cell) SpreadCell(layer, task, cell);
}

void MemoryWorkspace::SpreadCell(int64_t layer, const CellTask& task, int64_t cell) {
  const CentreCells& cells = cells_[task.head];
  const int64_t of_head = task.head * places_;
  const int64_t first_key = cells.key_begin[cell];
  const int64_t at = of_head + RoundUp(first_key, kernels::kPanel) + cell * kernels::kPanel;
  const int64_t count = cells.centres(cell);
  const kernels::SpreadInCellParams params = {
      .keys = KeysOf(kv(), shape_, task.head),
      .weight = weight_.data() + of_head,
      .n = keys(),
      .head_dim = shape_.head_dim,
      .member = cells.member.data() + first_key,
      .cell_keys = cells.keys(cell),
      .coarse_centre = centres_.data()[task.head * most_cells_ + cell],
      .centre_count = count,
      .first_index = cells.centre_begin[cell],
      .first_centre = task.first_centre,
      .end_centre = task.first_centre + std::min(task.most_centres, count - task.first_centre),
      .cell_panels = cell_panels_.data() + at * shape_.head_dim,
      .cell_weight = cell_weight_.data() + at,
      .distance = cell_distance_.data() + at,
      .nearest_place = nearest_place_.data() + at,
      .nearest = nearest_.data() + of_head,
      .seed = seed_,
      .stream = MemoryStream(config_, segment_index_, layer, task.head)};
  assert(kernels::ValidateSpreadInCell(params).ok());
  kernels::SpreadInCell(params);
}

KeyGroups MemoryWorkspace::Choose(int64_t layer, int64_t head) {
  const auto n = static_cast<size_t>(keys());
  if (!reduces()) return KeepAllKeys(keys());
  if (policy_ == MemoryPolicy::kMerge) {
    return GroupByCentre({nearest_.data() + head * places_, n}, set_keys_);
  }
  const KeysToChooseFrom all = {.importance = {importance_.data() + head * keys(), n},
                                .log_weights = {LogWeights(head), n},
                                .rows = rows_.Rows(head)};
  if (policy_ == MemoryPolicy::kHeavy) return KeepHeaviest(all, set_keys_);
  return SampleKeys(all, set_keys_, seed_, MemoryStream(config_, segment_index_, layer, head));
}

void MemoryWorkspace::ChooseHead(int64_t layer, int64_t head) {
  kept_[head] = Choose(layer, head);
  Require(kept_[head].groups() == kept_keys(), "a head keeps M keys, or all");
  if (measuring_rows_ > 0) rows_.Keep(layer, head, kept_[head].member);
}

void MemoryWorkspace::StoreKeys(RowRange keys, const ContextLayer<float>& set) {
  for (int64_t head = 0; head < shape_.heads; ++head) {
    const KeyGroups& kept = kept_[head];
    float* log_weights = set.log_weights + head * set_keys_;
    const kernels::MergeKeysParams params = {.keys = KeysOf(kv(), shape_, head),
                                             .values = ValuesOf(kv(), shape_, head),
                                             .log_weights = LogWeights(head),
                                             .member = kept.member.data(),
                                             .group_begin = kept.group_begin.data(),
                                             .out_keys = KeysOf(set.kv, shape_, head),
                                             .out_values = ValuesOf(set.kv, shape_, head),
                                             .out_log_weights = log_weights,
                                             .n = segment_.keys(),
                                             .head_dim = shape_.head_dim,
                                             .groups = kept.groups(),
                                             .first_group = keys.first,
                                             .end_group = keys.first + keys.rows};
    assert(kernels::ValidateMergeKeys(params).ok());
    kernels::MergeKeys(params);
    if (kept.log_weights.empty()) continue;
    std::copy_n(kept.log_weights.begin() + keys.first, keys.rows, log_weights + keys.first);
  }
}

}  // namespace chorale::cpu
