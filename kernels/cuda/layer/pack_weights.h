// Packs the weights of a layer into the layouts of the layer kernels, in host memory.
#ifndef CHORALE_KERNELS_CUDA_LAYER_PACK_WEIGHTS_H_
#define CHORALE_KERNELS_CUDA_LAYER_PACK_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/layout/matrix.h"

namespace chorale::kernels::cuda {

// PostAttentionWeights::weight_tiles and PreAttentionWeights::weight_tiles (layer.h), bf16.
std::vector<uint16_t> PackPostAttentionTiles(const Matrix& wo, const Matrix& w1, const Matrix& w2);
std::vector<uint16_t> PackPreAttentionTiles(const Matrix& feature, const Matrix& query_key_value);
// The same weight tiles as wgmma tiles (layout/weight_tiles.h): WgmmaTileAt, WgmmaColumnTileAt.
std::vector<uint16_t> PackWgmmaTiles(const std::vector<uint16_t>& weight_tiles);
std::vector<uint16_t> PackWgmmaColumnTiles(const std::vector<uint16_t>& weight_tiles);

// PostAttentionWeights::vectors and PreAttentionWeights::vectors.
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
