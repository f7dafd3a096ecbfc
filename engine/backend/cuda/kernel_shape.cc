#include "engine/backend/cuda/kernel_shape.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/integer_math.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/head/unfused_head.h"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/layers.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/unfused/unfused_rows.h"

namespace chorale::cuda {
namespace {

constexpr int32_t kHiddenStep = 64;  // unfused form

bool FitsFused(const kernels::cuda::ModelShape& shape, int shared_bytes) {
  if (shape.width > kernels::cuda::kLargestWidth ||
      shape.query_width() > 2 * kernels::cuda::kLargestWidth ||
      shape.hidden > kernels::cuda::kLargestHidden) {
    return false;
  }
  return kernels::cuda::LayerSharedBytes(shape, kernels::cuda::kGroupRows) <= shared_bytes &&
         kernels::cuda::HeadSharedBytes(shape) <= shared_bytes;
}

}  // namespace

KernelShape::KernelShape(const ModelConfig& config, const kernels::cuda::DeviceProperties& device)
    : ModelShape{.width = static_cast<int32_t>(config.d_model),
                 .heads = static_cast<int32_t>(config.n_heads),
                 .kv_heads = static_cast<int32_t>(config.n_kv_heads),
                 .head_dim = static_cast<int32_t>(kernels::cuda::PaddedHeadDim(config.head_dim())),
                 .hidden = static_cast<int32_t>(config.d_ff),
                 .components = static_cast<int32_t>(config.num_components)},
      layers(static_cast<int32_t>(config.n_layers)),
      fused(FitsFused(*this, device.shared_bytes_per_block)),
      q_stride(query_width()),
      has_layers_kernel(
          fused && device.compute_major == kernels::cuda::kWgmmaComputeMajor &&
          kernels::cuda::HasLayersKernel(*this, layers, device.shared_bytes_per_block)) {
  if (fused) return;
  hidden = static_cast<int32_t>(RoundUp(hidden, kHiddenStep));
  q_stride = qkv_width();
}

absl::Status KernelShape::Check(const ModelConfig& config,
                                const kernels::cuda::DeviceProperties& device) const {
  const auto refuse = [](absl::string_view name, int64_t value, absl::string_view limit) {
    return absl::InvalidArgumentError(absl::StrCat("the GPU backend does not support a model with ",
                                                   name, " ", value, "; supported: ", limit));
  };
  if (config.d_model % 8 != 0 || config.d_model > kernels::cuda::kLargestWideWidth) {
    return refuse("d_model", config.d_model,
                  absl::StrCat("multiples of 8 up to ", kernels::cuda::kLargestWideWidth));
  }
  if (!kernels::cuda::IsSupportedHeadDim(head_dim)) {
    return refuse("heads of width", config.head_dim(), "widths up to 16, 32, 64 or 128");
  }
  if (query_width() > 2 * kernels::cuda::kLargestWideWidth) {
    return refuse("n_heads", config.n_heads, "fewer heads, or wider heads");
  }
  if (config.d_ff > kernels::cuda::kLargestWideHidden) {
    return refuse("d_ff", config.d_ff, absl::StrCat("up to ", kernels::cuda::kLargestWideHidden));
  }
  if (config.num_components > kernels::cuda::kMostComponents) {
    return refuse("num_components", config.num_components,
                  absl::StrCat("up to ", kernels::cuda::kMostComponents));
  }
  const int head_bytes = kernels::cuda::UnfusedHeadSharedBytes(components);
  if (!fused && head_bytes > device.shared_bytes_per_block) {
    return refuse("num_components", config.num_components,
                  absl::StrCat("fewer components: the head needs ", head_bytes,
                               " bytes of shared memory, but a block of this device has ",
                               device.shared_bytes_per_block));
  }
  return absl::OkStatus();
}

int64_t KernelShape::ContextElements(int64_t rows) const {
  return kernels::cuda::ContextLayerSize(rows, kv_heads, head_dim);
}

int64_t KernelShape::BufferElements(int64_t capacity, int64_t paths) const {
  return kernels::cuda::BufferLayerSize(capacity, kernels::cuda::BufferPaths(paths), kv_heads,
                                        head_dim);
}

}  // namespace chorale::cuda
