// The weights of the unfused form (kernels/cuda/unfused/unfused_rows.h), and the GEMMs that
// multiply by them.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_UNFUSED_WEIGHTS_H_
#define CHORALE_ENGINE_BACKEND_CUDA_UNFUSED_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/device/weight_blob.h"
#include "engine/backend/cuda/kernel_shape.h"
#include "engine/model/model.h"
#include "kernels/cuda/gemm/gemm_library.h"
#include "kernels/cuda/gemm/gemm_plan.h"
#include "kernels/cuda/head/head.h"

namespace chorale::cuda {

// Device memory. Matrices are [out, in] bf16, row-major; vectors are f32. Dff is
// KernelShape::hidden, with zeros as padding.
struct UnfusedLayerWeights {
  const uint16_t* feature = nullptr;     // P [D, D]
  const uint16_t* projection = nullptr;  // Wq over Wk over Wv, [(H + 2 Hkv) Dh, D]; Wq is
                                         // multiplied by log2(e) Dh^-0.5
  const uint16_t* out = nullptr;         // Wo [D, H Dh]
  const uint16_t* up = nullptr;          // W1 [Dff, D]
  const uint16_t* down = nullptr;        // W2 [D, Dff]
  const float* b1 = nullptr;             // [Dff]
  const float* b2 = nullptr;             // [D]
  const float* gamma[3] = {};            // of LN1, LN2, LN3: [D] each
  const float* beta[3] = {};
};

// Device memory.
struct UnfusedWeights {
  // Adds the weights of layers and head to `blob`.
  UnfusedWeights(const Model& model, const KernelShape& shape, WeightBlob& blob);

  std::vector<UnfusedLayerWeights> layers;
  const uint16_t* head_parts = nullptr;  // W1 of the head as three parts, [Dff, 3, D] bf16
  kernels::cuda::HeadWeights head;       // without w1
};

// The plans of the GEMMs of a layer, and of the first GEMM of the head. Each GEMM has the same
// shape in all layers.
struct UnfusedGemms {
  // Selects the algorithms, with the launch workspace of the device as scratch memory. Returns the
  // errors of PlanGemm.
  absl::Status Plan(const KernelShape& shape, kernels::cuda::GemmLibrary& library, Device& device);

  kernels::cuda::GemmPlan feature;
  kernels::cuda::GemmPlan projection;
  kernels::cuda::GemmPlan out;
  kernels::cuda::GemmPlan up;
  kernels::cuda::GemmPlan down;
  kernels::cuda::GemmPlan head;  // W1 in parts, see HeadPartsParams
  uint64_t bits = 0;             // combines GemmPlan::bits of all plans
  int64_t most_tiles = 0;        // the largest launch for which all plans have algorithms
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_UNFUSED_WEIGHTS_H_
