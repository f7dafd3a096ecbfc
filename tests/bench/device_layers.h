// The layers of a model on the device, in both forms, for benchmarks of kernels.
#ifndef CHORALE_TESTS_BENCH_DEVICE_LAYERS_H_
#define CHORALE_TESTS_BENCH_DEVICE_LAYERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/backend/cuda/kernel_shape.h"
#include "engine/model/model.h"
#include "kernels/cuda/gemm/gemm_library.h"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/runtime.h"

namespace chorale {

// Ends the process unless `error` is success.
void RequireSuccess(kernels::cuda::ErrorCode error, absl::string_view what);
kernels::cuda::Memory AllocateOrFail(int64_t bytes);

// An array in device memory. Copies wait for nothing but themselves. Whatever goes wrong ends the
// process.
template <typename T>
class DeviceVector {
 public:
  DeviceVector() = default;
  // Its contents are undefined.
  explicit DeviceVector(int64_t size)
      : memory_(AllocateOrFail(size * static_cast<int64_t>(sizeof(T)))) {}
  explicit DeviceVector(const std::vector<T>& values)
      : DeviceVector(static_cast<int64_t>(values.size())) {
    Upload(values);
  }

  T* data() const { return memory_.template At<T>(); }

  void Upload(const std::vector<T>& values) const {
    RequireSuccess(
        kernels::cuda::CopyToDevice(data(), values.data(),
                                    static_cast<int64_t>(values.size() * sizeof(T)), nullptr),
        "copying to the device");
    RequireSuccess(kernels::cuda::Synchronize(nullptr), "copying to the device");
  }
  std::vector<T> Download(int64_t first, int64_t count) const {
    std::vector<T> values(count);
    RequireSuccess(kernels::cuda::CopyToHost(values.data(), data() + first,
                                             count * static_cast<int64_t>(sizeof(T)), nullptr),
                   "copying to the host");
    RequireSuccess(kernels::cuda::Synchronize(nullptr), "copying to the host");
    return values;
  }

 private:
  kernels::cuda::Memory memory_;
};

// The five products of a layer, from one attention to the next.
enum TimedGemm { kOutputProjection, kMlpUp, kMlpDown, kFeatureAttention, kQkvProjection };
inline constexpr size_t kGemms = 5;
inline constexpr std::array<absl::string_view, kGemms> kGemmNames = {
    "output_projection", "mlp_up", "mlp_down", "feature_attention", "qkv_projection"};

std::array<kernels::cuda::GemmShape, kGemms> GemmShapes(const kernels::cuda::ModelShape& shape);

// A layer's weights for the unfused form, and for the fused one if `shape` has it.
struct DeviceLayer {
  // REQUIRES: neither heads nor Dff need padding.
  DeviceLayer(const LayerWeights& weights, const ModelConfig& config,
              const cuda::KernelShape& shape, bool has_wgmma);

  // Null pointers without the fused form, or without wgmma.
  kernels::cuda::PostAttentionWeights post_attention() const;
  kernels::cuda::PreAttentionWeights pre_attention() const;

  // Of the unfused form: row-major bf16 [outputs, inputs], and [D] or [Dff] f32.
  std::array<DeviceVector<uint16_t>, kGemms> matrices;
  DeviceVector<float> gamma1, beta1, gamma2, beta2, gamma3, beta3, b1, b2;
  // Of the fused form.
  DeviceVector<uint16_t> post_tiles, post_wgmma_tiles, post_wgmma_column_tiles;
  DeviceVector<uint16_t> pre_tiles, pre_wgmma_tiles, pre_wgmma_column_tiles;
  DeviceVector<float> post_vectors, pre_vectors;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_BENCH_DEVICE_LAYERS_H_
