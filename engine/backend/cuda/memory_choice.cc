#include "engine/backend/cuda/memory_choice.h"

#include <algorithm>

namespace chorale::cuda {

MemoryChoice::MemoryChoice(const ModelConfig& config, const ContextShape& shape,
                           const MemoryPlan& plan, uint64_t seed)
    : config_(config),
      policy_(shape.memory.policy),
      set_keys_(shape.memory.rows),
      seed_(seed),
      rows_({.layers = config.n_layers,
             .heads = config.n_kv_heads,
             .set_keys = set_keys_,
             .most_keys = plan.max_keys(),
             .measuring_rows = plan.measuring_rows()}),
      set_log_weights_(config.n_layers * config.n_kv_heads * set_keys_) {}

void MemoryChoice::BeginSegment(int64_t index, const MemorySegment& segment,
                                absl::Span<const int32_t> rows,
                                absl::Span<const int32_t> measuring_index) {
  segment_index_ = index;
  segment_ = segment;
  rows_.BeginSegment(segment.set_keys, rows, measuring_index);
}

absl::Span<const int32_t> MemoryChoice::HiddenKeys(int64_t layer) {
  for (int64_t head = 0; head < config_.n_kv_heads; ++head) rows_.Load(layer, head);
  return rows_.hidden_keys();
}

std::vector<KeyGroups> MemoryChoice::Choose(int64_t layer, const kernels::cuda::MemoryKeys& keys,
                                            absl::Span<const double> importance) {
  std::vector<KeyGroups> chosen;
  std::vector<double> of_keys(keys.keys());
  std::vector<float> log_weights(keys.keys());  // 0 of the segment's rows
  for (int64_t head = 0; head < config_.n_kv_heads; ++head) {
    for (int32_t key = 0; key < keys.keys(); ++key) {
      of_keys[key] = importance[head * keys.places() + keys.PlaceOf(key)];
    }
    std::copy_n(SetLogWeights(layer, head), segment_.set_keys, log_weights.begin());
    const KeysToChooseFrom all = {
        .importance = of_keys, .log_weights = log_weights, .rows = rows_.Rows(head)};
    chosen.push_back(policy_ == MemoryPolicy::kHeavy
                         ? KeepHeaviest(all, set_keys_)
                         : SampleKeys(all, set_keys_, seed_,
                                      MemoryStream(config_, segment_index_, layer, head)));
    rows_.Keep(layer, head, chosen.back().member);
    std::copy(chosen.back().log_weights.begin(), chosen.back().log_weights.end(),
              SetLogWeights(layer, head));
  }
  return chosen;
}

std::vector<KeyGroups> MemoryChoice::KeepAll(int64_t layer) {
  const KeyGroups all = KeepAllKeys(segment_.keys());
  for (int64_t head = 0; head < config_.n_kv_heads; ++head) rows_.Keep(layer, head, all.member);
  return std::vector<KeyGroups>(config_.n_kv_heads, all);
}

}  // namespace chorale::cuda
