// The sizes of a model in the kernels, and the form of its layers (LayerForm) that follows from
// them.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_KERNEL_SHAPE_H_
#define CHORALE_ENGINE_BACKEND_CUDA_KERNEL_SHAPE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/model/model_config.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/runtime/runtime.h"

namespace chorale::cuda {

// Heads narrower than 16 are padded with zeros. In the unfused form, `hidden` is padded with zeros
// to a multiple of 64.
struct KernelShape : kernels::cuda::ModelShape {
  // Selects the fused form if the shared memory of a block of the device holds the rows of the
  // layer and of the head. So the form depends only on the sizes of the model and on the kind of
  // device.
  KernelShape(const ModelConfig& config, const kernels::cuda::DeviceProperties& device);

  // Returns InvalidArgument if the kernels do not support the shape, or if the shared memory of a
  // block of the device is too small for both forms.
  absl::Status Check(const ModelConfig& config,
                     const kernels::cuda::DeviceProperties& device) const;

  int64_t ContextElements(int64_t rows) const;                    // of one layer, bf16
  int64_t BufferElements(int64_t capacity, int64_t paths) const;  // of one layer, bf16

  int32_t layers = 0;    // L
  bool fused = true;     // FusedForm if true, else UnfusedForm
  int32_t q_stride = 0;  // stride of q in elements; unfused: q, K and V
  // Fused form: whether one kernel can compute all layers (kernels/cuda/layer/layers.h).
  bool has_layers_kernel = false;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_KERNEL_SHAPE_H_
