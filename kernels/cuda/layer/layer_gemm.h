// The GEMMs of a layer in their order, their shapes, and the vectors that they add and scale with:
// the same for all versions of the layer kernel.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYER_GEMM_H_
#define CHORALE_KERNELS_CUDA_LAYER_LAYER_GEMM_H_

#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/weight_tiles.h"

namespace chorale::kernels::cuda {

enum class LayerGemm : int {
  kOutputProjection,  // x = LN2(x + Wo attention)
  kMlpUp,             // hidden = gelu(W1 x + b1)
  kMlpDown,           // x = LN3(x + W2 hidden + b2)
  kFeatureAttention,  // x = LN1(x + P x)
  kQkvProjection,     // qkv = (Wq over Wk over Wv) x
};

// The GEMMs of a launch with or without post-attention and pre-attention: all from the first to the
// last; and the last one that updates x. Functions of their own: a struct of all three would change
// the register counts of the kernels.
constexpr LayerGemm FirstGemm(bool post_attention) {
  return post_attention ? LayerGemm::kOutputProjection : LayerGemm::kFeatureAttention;
}
constexpr LayerGemm LastGemm(bool pre_attention) {
  return pre_attention ? LayerGemm::kQkvProjection : LayerGemm::kMlpDown;
}
constexpr LayerGemm LastGemmIntoX(bool pre_attention) {
  return pre_attention ? LayerGemm::kFeatureAttention : LayerGemm::kMlpDown;
}
constexpr LayerGemm NextGemm(LayerGemm gemm) {
  return static_cast<LayerGemm>(static_cast<int>(gemm) + 1);
}

constexpr int InputsOf(const ModelShape& shape, LayerGemm gemm) {
  if (gemm == LayerGemm::kOutputProjection) return shape.query_width();
  return gemm == LayerGemm::kMlpDown ? shape.hidden : shape.width;
}
constexpr int OutputsOf(const ModelShape& shape, LayerGemm gemm) {
  if (gemm == LayerGemm::kMlpUp) return shape.hidden;
  return gemm == LayerGemm::kQkvProjection ? shape.qkv_width() : shape.width;
}

// Elements of PostAttentionWeights::vectors and PreAttentionWeights::vectors.
constexpr int PostAttentionVectorsSize(const ModelShape& shape) {
  return 5 * shape.width + static_cast<int>(WeightTiles(shape.hidden)) * kWeightTileOutputs;
}
constexpr int PreAttentionVectorsSize(const ModelShape& shape) { return 2 * shape.width; }

// Where they begin in PostAttentionWeights::vectors, in multiples of D. A beta follows its gamma.
inline constexpr int kGamma2At = 0;
inline constexpr int kGamma3At = 2;
inline constexpr int kB2At = 4;
inline constexpr int kB1At = 5;

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYER_GEMM_H_
