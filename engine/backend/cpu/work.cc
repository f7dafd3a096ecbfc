#include "engine/backend/cpu/work.h"

#include <algorithm>

#include "base/require.h"

namespace chorale::cpu {

const float* EncodingsOf(const EncodedRows& rows) {
  const auto* cpu_rows = dynamic_cast<const EncodedQueryRows*>(&rows);
  Require(cpu_rows != nullptr, "the encoded rows belong to the CPU backend");
  return cpu_rows->encodings();
}

void RequireShape(const FeatureMatrix& features) {
  Require(features.rows >= 1 && features.features >= 1 &&
              static_cast<int64_t>(features.x.size()) == features.rows * features.features,
          "features are [rows, features], with at least one row and one feature");
}

int32_t QueryRowAt(const TileSpec& tile, int64_t path, int64_t position) {
  return tile.order.empty() ? static_cast<int32_t>(position)
                            : tile.order[path * tile.positions() + position];
}

void MixtureStore::Set(int64_t row, const kernels::MixtureView& mixture) {
  const int64_t begin = row * components_;
  std::copy_n(mixture.mean, components_, mean_.data() + begin);
  std::copy_n(mixture.std, components_, std_.data() + begin);
  std::copy_n(mixture.log_weight, components_, log_weight_.data() + begin);
}

MixtureSpan MixtureStore::Get(int64_t row) const {
  const size_t begin = row * components_;
  Require(row >= 0 && begin + components_ <= mean_.size(), "the mixture asked for is kept");
  return {.mean = absl::MakeConstSpan(mean_).subspan(begin, components_),
          .std = absl::MakeConstSpan(std_).subspan(begin, components_),
          .log_weight = absl::MakeConstSpan(log_weight_).subspan(begin, components_)};
}

const PackedModel& AsPackedModel(const BackendModel& model) {
  const auto* cpu_model = dynamic_cast<const PackedModel*>(&model);
  Require(cpu_model != nullptr, "the model belongs to the CPU backend");
  return *cpu_model;
}

ContextKvView::ContextKvView(const ResidentContext& context, const float* pool)
    : model_(&AsPackedModel(*context.model)),
      memory_(pool),
      layout_(model_->config(), context.shape) {}

AttentionKv ContextKvView::Layer(int64_t layer) const {
  const ContextLayer<const float> view = layout_.Layer(memory_, layer);
  AttentionKv keys;
  keys.context = view.kv;
  keys.context_log_weights = view.log_weights;
  keys.context_rows = layout_.keys();
  return keys;
}

}  // namespace chorale::cpu
