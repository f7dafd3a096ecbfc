// A model's sizes as the kernels have them, and the form of its layers (LayerForm) that follows
// from them.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_KERNEL_SHAPE_H_
#define CHORALE_ENGINE_BACKEND_CUDA_KERNEL_SHAPE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/model/model_config.h"
#include "kernels/cuda/layout/model_shape.h"

namespace chorale::cuda {

// Heads narrower than 16, and a `hidden` of the unfused form that is no multiple of 64, are padded
// with zeros.
struct KernelShape : kernels::cuda::ModelShape {
  // The form is fused where a block of the device, with `shared_bytes` of shared memory, holds the
  // rows of such a layer and head. So it depends on the model's sizes and on the kind of device
  // alone.
  KernelShape(const ModelConfig& config, int shared_bytes);

  // InvalidArgument for a shape that the kernels are not built for, or for which a block of the
  // device has too little shared memory in both forms.
  absl::Status Check(const ModelConfig& config, int shared_bytes) const;

  int64_t ContextElements(int64_t rows) const;                    // of one layer, bf16
  int64_t BufferElements(int64_t capacity, int64_t paths) const;  // of one layer, bf16

  int32_t layers = 0;    // L
  bool fused = true;     // FusedForm, else UnfusedForm
  int32_t q_stride = 0;  // elements from a row's q to the next one's; unfused: K and V follow it
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_KERNEL_SHAPE_H_
