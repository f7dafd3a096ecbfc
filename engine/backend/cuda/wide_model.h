// A model's weights in the wide form of a layer (kernels/cuda/wide/wide_rows.h), and the products
// that multiply by them.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_WIDE_MODEL_H_
#define CHORALE_ENGINE_BACKEND_CUDA_WIDE_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/device/weight_blob.h"
#include "engine/backend/cuda/kernel_shape.h"
#include "engine/model/model.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/products/product_library.h"
#include "kernels/cuda/products/product_plan.h"

namespace chorale::cuda {

// Device memory. Matrices are [out, in] bf16, row-major; vectors f32. Dff is KernelShape::hidden,
// padded with zeros.
struct WideLayerWeights {
  const uint16_t* feature = nullptr;     // P [D, D]
  const uint16_t* projection = nullptr;  // Wq over Wk over Wv, [(H + 2 Hkv) Dh, D]; Wq is
                                         // multiplied by log2(e) Dh^-0.5
  const uint16_t* out = nullptr;         // Wo [D, H Dh]
  const uint16_t* up = nullptr;          // W1 [Dff, D]
  const uint16_t* down = nullptr;        // W2 [D, Dff]
  const float* b1 = nullptr;             // [Dff]
  const float* b2 = nullptr;             // [D]
  const float* gamma[3] = {};            // [D] each: of LN1, LN2, LN3
  const float* beta[3] = {};
};

// The products of a layer, and the first one of the head. Each has one shape in all layers.
struct WideProducts {
  kernels::cuda::ProductPlan feature;
  kernels::cuda::ProductPlan projection;
  kernels::cuda::ProductPlan out;
  kernels::cuda::ProductPlan up;
  kernels::cuda::ProductPlan down;
  kernels::cuda::ProductPlan head;  // of W1 in parts, see HeadPartsParams
};

// Immutable once Plan has succeeded.
class WideModel {
 public:
  // Adds the weights of layers and head to the blob: they are on the GPU when that is. The library
  // must outlive the model.
  WideModel(const Model& model, const KernelShape& shape, kernels::cuda::ProductLibrary& library,
            WeightBlob& blob);

  // Chooses the algorithms of all products. In the launch workspace. See PlanProduct for errors.
  absl::Status Plan(Device& device);

  const KernelShape& shape() const { return shape_; }
  const std::vector<WideLayerWeights>& layers() const { return layers_; }
  const uint16_t* head_parts() const { return head_parts_; }  // W1 as three parts, [Dff, 3, D] bf16
  // Without w1.
  const kernels::cuda::HeadWeights& head() const { return head_; }
  const WideProducts& products() const { return products_; }
  kernels::cuda::ProductLibrary& library() const { return library_; }
  // Of ProductPlan::bits of all products.
  uint64_t product_bits() const { return product_bits_; }
  // Tiles of rows of the largest launch that all products have algorithms for.
  int64_t most_tiles() const { return most_tiles_; }

 private:
  const KernelShape shape_;
  kernels::cuda::ProductLibrary& library_;
  std::vector<WideLayerWeights> layers_;
  const uint16_t* head_parts_ = nullptr;
  kernels::cuda::HeadWeights head_;
  WideProducts products_;
  uint64_t product_bits_ = 0;
  int64_t most_tiles_ = 0;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_WIDE_MODEL_H_
