#include "engine/backend/cuda/kernel_shape.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/integer_math.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/head/wide_head.h"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/wide/wide_rows.h"

namespace chorale::cuda {
namespace {

constexpr int32_t kHiddenStep = 64;  // of the wide form

bool FitsFused(const KernelShape& shape, int shared_bytes) {
  if (shape.width > kernels::cuda::kLargestWidth ||
      shape.queries > 2 * kernels::cuda::kLargestWidth ||
      shape.hidden > kernels::cuda::kLargestHidden) {
    return false;
  }
  const kernels::cuda::LayerParams rows = {.post_attention = {},
                                           .pre_attention = {},
                                           .tile_count = 1,
                                           .width = shape.width,
                                           .heads = shape.heads,
                                           .kv_heads = shape.kv_heads,
                                           .head_dim = shape.head_dim,
                                           .hidden = shape.hidden};
  const kernels::cuda::HeadParams head = {
      .weights = {}, .width = shape.width, .hidden = shape.hidden, .components = shape.components};
  return kernels::cuda::ChooseBlockRows(rows, 1, shared_bytes).ok() &&
         kernels::cuda::HeadSharedBytes(head) <= shared_bytes;
}

}  // namespace

const char* NameOf(LayerForm form) { return form == LayerForm::kFused ? "fused" : "wide"; }

KernelShape::KernelShape(const ModelConfig& config, int shared_bytes)
    : width(static_cast<int32_t>(config.d_model)),
      heads(static_cast<int32_t>(config.n_heads)),
      kv_heads(static_cast<int32_t>(config.n_kv_heads)),
      head_dim(static_cast<int32_t>(kernels::cuda::PaddedHeadDim(config.head_dim()))),
      hidden(static_cast<int32_t>(config.d_ff)),
      components(static_cast<int32_t>(config.num_components)),
      layers(static_cast<int32_t>(config.n_layers)),
      queries(heads * head_dim),
      q_stride(queries) {
  if (FitsFused(*this, shared_bytes)) return;
  form = LayerForm::kWide;
  hidden = static_cast<int32_t>(RoundUp(hidden, kHiddenStep));
  q_stride = queries + 2 * kv_heads * head_dim;
}

absl::Status KernelShape::Check(const ModelConfig& config, int shared_bytes) const {
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
  if (queries > 2 * kernels::cuda::kLargestWideWidth) {
    return refuse("n_heads", config.n_heads, "fewer heads, or wider heads");
  }
  if (config.d_ff > kernels::cuda::kLargestWideHidden) {
    return refuse("d_ff", config.d_ff, absl::StrCat("up to ", kernels::cuda::kLargestWideHidden));
  }
  if (config.num_components > kernels::cuda::kMostComponents) {
    return refuse("num_components", config.num_components,
                  absl::StrCat("up to ", kernels::cuda::kMostComponents));
  }
  const int head_bytes = kernels::cuda::WideHeadSharedBytes(components);
  if (form == LayerForm::kWide && head_bytes > shared_bytes) {
    return refuse(
        "num_components", config.num_components,
        absl::StrCat("fewer components: the head needs ", head_bytes,
                     " bytes of shared memory, but a block of this device has ", shared_bytes));
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
