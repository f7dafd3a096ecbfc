#include "kernels/cuda/layer/layer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/layer/layer_gemm.h"
#include "kernels/cuda/layer/smem_mma_sm80.h"
#include "kernels/cuda/layer/smem_tile_sm90.h"
#include "kernels/cuda/layer/smem_wgmma_sm90.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {
namespace {

absl::Status ValidatePostAttention(const LayerParams& p) {
  if (p.attended == nullptr) {
    RETURN_IF_ERROR(RequireNotNull({{"partial_o", p.partial_o}, {"partial_ml", p.partial_ml}}));
  }
  return RequireNotNull({{"post_attention.weight_tiles", p.post_attention.weight_tiles},
                         {"post_attention.vectors", p.post_attention.vectors}});
}

absl::Status ValidatePreAttention(const LayerParams& p) {
  return RequireNotNull({{"q", p.q},
                         {"pre_attention.weight_tiles", p.pre_attention.weight_tiles},
                         {"pre_attention.vectors", p.pre_attention.vectors}});
}

absl::Status ValidateSizes(const LayerParams& p) {
  const ModelShape& shape = p.shape;
  RETURN_IF_ERROR(RequirePositive({{"tile_count", p.tile_count},
                                   {"shape.width", shape.width},
                                   {"shape.hidden", shape.hidden}}));
  if (shape.width % 8 != 0 || shape.width > kLargestWidth) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shape.width is ", shape.width, ", must be a multiple of 8 up to ", kLargestWidth));
  }
  RETURN_IF_ERROR(ValidateHeads(shape));
  RETURN_IF_ERROR(RequireAtLeast({"heads * head_dim", shape.query_width()}, shape.width));
  if (shape.query_width() > 2 * kLargestWidth) {
    return absl::InvalidArgumentError(absl::StrCat("heads * head_dim is ", shape.query_width(),
                                                   ", must be at most ", 2 * kLargestWidth));
  }
  if (!(p.epsilon >= 0) || !std::isfinite(p.epsilon)) {
    return absl::InvalidArgumentError("epsilon must be finite and at least 0");
  }
  return absl::OkStatus();
}

// Whether there are the weights of all parts of a launch.
bool HasTiles(const LayerParams& p, const uint16_t* post_attention, const uint16_t* pre_attention) {
  return (p.part == LayerPart::kPreAttention || post_attention != nullptr) &&
         (p.part == LayerPart::kPostAttention || pre_attention != nullptr);
}

}  // namespace

absl::Status ValidateLayer(const LayerParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"tiles", p.tiles}, {"x", p.x}}));
  if (p.part != LayerPart::kPreAttention) RETURN_IF_ERROR(ValidatePostAttention(p));
  if (p.part != LayerPart::kPostAttention) RETURN_IF_ERROR(ValidatePreAttention(p));
  RETURN_IF_ERROR(RequireNotNegative({{"kv_layer", p.kv_layer}}));
  return ValidateSizes(p);
}

int LayerSharedBytes(const ModelShape& shape, int block_rows) {
  return MmaSmemOf(shape, block_rows).bytes;
}

bool UsesWgmma(const LayerParams& params, int block_rows, int shared_bytes) {
  return HasTiles(params, params.post_attention.wgmma_tiles, params.pre_attention.wgmma_tiles) &&
         block_rows >= kGroupRows && WgmmaSmemOf(params.shape, block_rows, shared_bytes).stages > 0;
}

bool HasTileKernel(const ModelShape& shape) {
  return WeightTiles(shape.width) == 1 && WeightTiles(shape.query_width()) == 1 &&
         WeightTiles(shape.hidden) > 1;
}

bool UsesTileKernel(const LayerParams& params, int block_rows, int shared_bytes) {
  const ModelShape& shape = params.shape;
  const bool needs_combining =
      params.part != LayerPart::kPreAttention && params.attended == nullptr;
  return HasTiles(params, params.post_attention.wgmma_column_tiles,
                  params.pre_attention.wgmma_column_tiles) &&
         !needs_combining && block_rows == kTileRows && HasTileKernel(shape) &&
         TileSmemOf(shape, shared_bytes).stages > 0;
}

absl::StatusOr<int> ChooseBlockRows(const LayerParams& params, int multiprocessors,
                                    int shared_bytes) {
  const ModelShape& shape = params.shape;
  const int64_t rows = int64_t{params.tile_count} * kTileRows;
  if (rows > kGroupRows * int64_t{multiprocessors} &&
      UsesTileKernel(params, kTileRows, shared_bytes)) {
    return kTileRows;
  }
  int block_rows = kGroupRows;
  if (rows <= kGroupPaths * int64_t{multiprocessors} / 2 &&
      !UsesWgmma(params, kGroupRows, shared_bytes)) {
    block_rows = kGroupPaths;
  }
  while (block_rows < kTileRows && rows > block_rows * int64_t{multiprocessors}) block_rows *= 2;
  for (; block_rows >= kGroupPaths; block_rows /= 2) {
    if (LayerSharedBytes(shape, block_rows) <= shared_bytes) return block_rows;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "16 rows of width ", shape.width, ", ", shape.heads, " heads of ", shape.head_dim,
      " and a hidden layer of ", shape.hidden, " need ", LayerSharedBytes(shape, kGroupRows),
      " bytes of shared memory, but a block of the device has ", shared_bytes));
}

}  // namespace chorale::kernels::cuda
