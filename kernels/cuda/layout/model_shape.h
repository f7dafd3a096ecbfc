// The sizes of a model, as the kernels take them.
#ifndef CHORALE_KERNELS_CUDA_LAYOUT_MODEL_SHAPE_H_
#define CHORALE_KERNELS_CUDA_LAYOUT_MODEL_SHAPE_H_

#include <cstdint>

namespace chorale::kernels::cuda {

// The parameters of an operation name the sizes that it reads; it ignores the others.
struct ModelShape {
  int32_t width = 0;     // D: elements of a row of the residual stream
  int32_t heads = 0;     // H: query heads
  int32_t kv_heads = 0;  // Hkv: K/V heads, a divisor of H
  int32_t head_dim = 0;  // Dh: elements of a head, padded (PaddedHeadDim): D may be less than H Dh
  int32_t hidden = 0;    // Dff: elements of the hidden layer of an MLP, and of the head
  int32_t components = 0;  // M: components of a mixture

  // Elements of the queries of a row; of its queries, keys and values.
  constexpr int32_t query_width() const { return heads * head_dim; }
  constexpr int32_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim; }
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYOUT_MODEL_SHAPE_H_
