#include "engine/backend/flop_model.h"

#include <numeric>

#include "engine/backend/encode_blocks.h"
#include "engine/backend/memory_plan.h"

namespace chorale {
namespace {

// The head's two maps: 2 D Dff and 2 Dff 3M.
double HeadFlops(const ModelConfig& config) {
  return 2.0 * static_cast<double>(config.d_ff * (config.d_model + 3 * config.num_components));
}

double Sum(const std::vector<double>& flops) {
  return std::accumulate(flops.begin(), flops.end(), 0.0);
}

}  // namespace

// 2 D D.
double MixFeaturesFlops(const ModelConfig& config) {
  return 2.0 * static_cast<double>(config.d_model * config.d_model);
}

// 2 * 2 D Hkv Dh.
double KvFlops(const ModelConfig& config) {
  return 4.0 * static_cast<double>(config.d_model * config.kv_width());
}

// Wq and Wo, 2 D D each; scores and weighted values, 2 D each per visible key; W1 and W2, 2 D Dff
// each.
double AttendAndFeedForwardFlops(const ModelConfig& config, double keys) {
  const auto d = static_cast<double>(config.d_model);
  return 4.0 * d * d + 4.0 * d * keys + 4.0 * d * static_cast<double>(config.d_ff);
}

double DecodeStepFlops(const ModelConfig& config, int64_t paths, int64_t context_rows,
                       int64_t position) {
  const auto layers = static_cast<double>(config.n_layers);
  const auto keys = static_cast<double>(context_rows + position);
  const double buffer_tokens = position == 0 ? 0 : 1;
  const double tokens = 1 + buffer_tokens;
  return static_cast<double>(paths) *
         (tokens * layers * MixFeaturesFlops(config) + buffer_tokens * layers * KvFlops(config) +
          (tokens * layers - buffer_tokens) * AttendAndFeedForwardFlops(config, keys) +
          HeadFlops(config));
}

std::vector<double> EncodePhaseFlops(const ModelConfig& config, int64_t context_rows,
                                     double unit_rows, double row_encoder) {
  const double project = MixFeaturesFlops(config) + KvFlops(config);
  const double attend = AttendAndFeedForwardFlops(config, static_cast<double>(context_rows));
  std::vector<double> flops(config.n_layers, unit_rows * (project + attend));
  flops.front() = unit_rows * (project + row_encoder);
  return flops;
}

std::vector<double> CopyPhaseFlops(const ModelConfig& config) {
  constexpr double kCopiedNumberFlops = 48;
  const double row = static_cast<double>(2 * config.kv_width()) * kCopiedNumberFlops;
  return std::vector<double>(config.n_layers, row);
}

std::vector<double> DensityPhaseFlops(const ModelConfig& config, int64_t context_rows,
                                      int64_t positions, double unit_rows) {
  const double keys = static_cast<double>(context_rows) + static_cast<double>(positions) / 2;
  const double project = MixFeaturesFlops(config) + KvFlops(config) / 2;
  const double attend = AttendAndFeedForwardFlops(config, keys);
  std::vector<double> flops(config.n_layers + 1, unit_rows * (attend + project));
  flops.front() = unit_rows * project;
  flops.back() = unit_rows / 2 * (attend + HeadFlops(config));
  return flops;
}

std::vector<double> PredictPhaseFlops(const ModelConfig& config, int64_t context_rows,
                                      double unit_rows) {
  const double mix = MixFeaturesFlops(config);
  const double attend = AttendAndFeedForwardFlops(config, static_cast<double>(context_rows));
  std::vector<double> flops(config.n_layers + 1, unit_rows * (mix + attend));
  flops.front() = unit_rows * mix;
  flops.back() = unit_rows * (mix + attend + HeadFlops(config));
  return flops;
}

std::vector<double> PredictLayerFlops(const ModelConfig& config, int64_t context_rows) {
  const double layer = MixFeaturesFlops(config) +
                       AttendAndFeedForwardFlops(config, static_cast<double>(context_rows));
  std::vector<double> flops(config.n_layers, layer);
  flops.back() += HeadFlops(config);
  return flops;
}

double EncodeFlops(const ModelConfig& config, const ContextShape& shape,
                   absl::Span<const int64_t> append_starts, int64_t prefix_rows) {
  if (shape.reduced()) return MemoryPlan(config, shape, append_starts, prefix_rows).flops();
  double flops = static_cast<double>(prefix_rows) * Sum(CopyPhaseFlops(config));
  for (const RowRange& block : EncodeBlocks(shape.rows, append_starts, prefix_rows)) {
    const int64_t keys = block.first + block.rows;
    flops += static_cast<double>(block.rows) * Sum(EncodePhaseFlops(config, keys));
  }
  return flops;
}

// The cost of a step grows linearly from position 1 on, so the mean over these steps is the mean of
// the first and the last.
double DecodeFlops(const ModelConfig& config, int64_t paths, int64_t context_rows, int64_t position,
                   int64_t steps) {
  double flops = 0;
  if (position == 0 && steps > 0) {
    flops = DecodeStepFlops(config, paths, context_rows, 0);
    ++position;
    --steps;
  }
  if (steps == 0) return flops;
  const double first = DecodeStepFlops(config, paths, context_rows, position);
  const double last = DecodeStepFlops(config, paths, context_rows, position + steps - 1);
  return flops + (first + last) / 2 * static_cast<double>(steps);
}

double DensityFlops(const ModelConfig& config, int64_t context_rows, int64_t positions,
                    int64_t paths) {
  const auto tokens = static_cast<double>(paths * (2 * positions - 1));
  return tokens * Sum(DensityPhaseFlops(config, context_rows, positions));
}

double PredictFlops(const ModelConfig& config, int64_t context_rows, int64_t rows) {
  return static_cast<double>(rows) * Sum(PredictPhaseFlops(config, context_rows));
}

}  // namespace chorale
