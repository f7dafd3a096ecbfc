// The embedding and all layers of tiles of paths in one kernel (compute capability 9.0). A block
// computes a tile, whose rows attend to no other tile: nothing passes between blocks, and while a
// layer is computed, keys, weights and buffers of the next one are on their way.
//
// LaunchLayers has the effect of LaunchEmbedPaths, of LaunchLayer with pre-attention, then
// LaunchAttention and LaunchLayer for each layer, and gives the same bits. Tiles of whole paths
// have no other kernel.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYERS_H_
#define CHORALE_KERNELS_CUDA_LAYER_LAYERS_H_

#include <cstdint>

#include "kernels/cuda/embed/embed.h"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

inline constexpr int kMostFusedLayers = 64;

// The weights of a layer: wgmma_column_tiles and vectors of PostAttentionWeights and
// PreAttentionWeights.
struct FusedLayer {
  const uint16_t* post_tiles = nullptr;
  const uint16_t* pre_tiles = nullptr;
  const float* post_vectors = nullptr;
  const float* pre_vectors = nullptr;
};

struct LayersParams {
  EmbedPathsParams paths;  // x is written between layers, too, in another order
  int32_t layers = 0;      // at most kMostFusedLayers
  ModelShape shape;        // see HasLayersKernel
  float epsilon = 0;
  bool whole_paths = false;  // whether all tiles are of whole paths (Tile::path_positions), or none
  bool weighted = false;     // as AttentionParams::weighted
  FusedLayer weights[kMostFusedLayers] = {};
};

// Whether there is a kernel for a model of this shape: D is 128, in two heads of 64 elements with
// K/V heads of their own; Dff is at most 256, and more than 128.
// Also, `layers` is at most kMostFusedLayers, and shared_bytes, of a block, suffice.
bool HasLayersKernel(const ModelShape& shape, int layers, int shared_bytes);

// REQUIRES: HasLayersKernel; the device has wgmma; ValidateEmbedPaths(params.paths).ok(), with the
// width of the shape.
ErrorCode LaunchLayers(const LayersParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYERS_H_
