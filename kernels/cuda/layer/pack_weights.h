// Weights in the form that the row kernel reads, made once in host memory when a model is added.
#ifndef CHORALE_KERNELS_CUDA_LAYER_PACK_WEIGHTS_H_
#define CHORALE_KERNELS_CUDA_LAYER_PACK_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/layout/matrix.h"

namespace chorale::kernels::cuda {

// The weight tiles and vectors of PostAttentionWeights and PreAttentionWeights (row_layer.h),
// weight tiles in bf16.
std::vector<uint16_t> PackPostAttentionTiles(const Matrix& wo, const Matrix& w1, const Matrix& w2);
std::vector<uint16_t> PackPreAttentionTiles(const Matrix& feature, const Matrix& query_key_value);
// WeightTiles in wgmma tiles, as products of a warpgroup take them (layout.h).
std::vector<uint16_t> PackWgmmaTiles(const std::vector<uint16_t>& weight_tiles);
std::vector<float> PackPostAttentionVectors(const std::vector<float>& gamma2,
                                            const std::vector<float>& beta2,
                                            const std::vector<float>& gamma3,
                                            const std::vector<float>& beta3,
                                            const std::vector<float>& b2,
                                            const std::vector<float>& b1);
std::vector<float> PackPreAttentionVectors(const std::vector<float>& gamma1,
                                           const std::vector<float>& beta1);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_PACK_WEIGHTS_H_
