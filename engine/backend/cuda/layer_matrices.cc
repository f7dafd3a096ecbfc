#include "engine/backend/cuda/layer_matrices.h"

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace chorale::cuda {

using kernels::cuda::Matrix;

LayerMatrices::LayerMatrices(const LayerWeights& weights, const ModelConfig& config,
                             const KernelShape& shape) {
  const int64_t d = config.d_model;
  const int64_t head_dim = config.head_dim();
  const auto heads = [&](const std::vector<float>& w, int64_t out_width) {
    return kernels::cuda::PadHeadOutputs(Matrix{w, out_width, d}, head_dim, shape.head_dim);
  };
  Matrix wq = heads(weights.wq, config.n_heads * head_dim);
  // Scores are then in units of log 2, as the exponential requires.
  const double scale = std::numbers::log2e / std::sqrt(static_cast<double>(head_dim));
  for (float& w : wq.values) w = static_cast<float>(w * scale);
  feature = {weights.feature, d, d};
  projection = kernels::cuda::StackOutputs(
      {wq, heads(weights.wk, config.kv_width()), heads(weights.wv, config.kv_width())});
  out = kernels::cuda::PadHeadInputs({weights.wo, d, config.n_heads * head_dim}, head_dim,
                                     shape.head_dim);
  up = {weights.w1, config.d_ff, d};
  down = {weights.w2, d, config.d_ff};
}

}  // namespace chorale::cuda
