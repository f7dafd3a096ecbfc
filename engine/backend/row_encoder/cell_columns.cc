#include "engine/backend/row_encoder/cell_columns.h"

#include <utility>

namespace chorale {

CellColumnMixer::CellColumnMixer(const CellAttentionWeights& weights, const ModelConfig& config)
    : width_(config.encoder_width),
      points_(config.encoder_induced_points),
      column_id_(weights.column_id),
      mix_columns_(weights.mix_columns, width_, config.encoder_heads, config.layer_norm_eps),
      gate_(weights.gate, weights.gate_bias, width_, width_) {}

CellColumns CellColumnMixer::Mix(std::vector<float> points) const {
  const int64_t size = points_ * width_;
  const auto columns = static_cast<int64_t>(points.size()) / size;
  std::vector<float> mixed(columns * width_);
  for (int64_t f = 0; f < columns; ++f) {
    for (int64_t e = 0; e < width_; ++e) {
      double sum = 0;
      for (int64_t i = 0; i < points_; ++i) sum += points[f * size + i * width_ + e];
      mixed[f * width_ + e] =
          static_cast<float>(sum / static_cast<double>(points_) + column_id_[f * width_ + e]);
    }
  }
  EncoderBlock::Scratch scratch;
  mix_columns_.AttendInSets(1, columns, mixed.data(), scratch);
  for (int64_t at = 0; at < columns * size; ++at) {
    points[at] += mixed[at / size * width_ + at % width_];
  }
  std::vector<float> gates(columns * width_);
  gate_.Apply(columns, mixed.data(), width_, gates.data());
  return {.columns = columns, .points = std::move(points), .gates = std::move(gates)};
}

}  // namespace chorale
