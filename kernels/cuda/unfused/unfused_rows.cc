#include "kernels/cuda/unfused/unfused_rows.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {
namespace {

absl::Status RequireWidth(absl::string_view name, int64_t width, int64_t largest) {
  if (width > 0 && width % 8 == 0 && width <= largest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", width, ", must be a multiple of 8 up to ", largest));
}

absl::Status RequireEpsilon(float epsilon) {
  if (epsilon >= 0 && std::isfinite(epsilon)) return absl::OkStatus();
  return absl::InvalidArgumentError("epsilon must be finite and at least 0");
}

}  // namespace

absl::Status ValidateCombinePartials(const CombinePartialsParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"tiles", p.tiles},
                                  {"partial_o", p.partial_o},
                                  {"partial_ml", p.partial_ml},
                                  {"attended", p.attended}}));
  RETURN_IF_ERROR(RequirePositive({{"tile_count", p.tile_count}}));
  return ValidateHeads(p.shape);
}

absl::Status ValidateNormalizeRows(const NormalizeRowsParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"x", p.x}, {"z", p.z}}));
  if (p.gamma != nullptr) RETURN_IF_ERROR(RequireNotNull({{"beta", p.beta}}));
  RETURN_IF_ERROR(RequirePositive({{"rows", p.rows}}));
  RETURN_IF_ERROR(RequireWidth("width", p.width, kLargestWideWidth));
  return RequireEpsilon(p.epsilon);
}

absl::Status ValidateHeadParts(const HeadPartsParams& p) {
  RETURN_IF_ERROR(
      RequireNotNull({{"x", p.x}, {"parts", p.parts}, {"gamma", p.gamma}, {"beta", p.beta}}));
  RETURN_IF_ERROR(RequirePositive({{"tile_count", p.tile_count}}));
  RETURN_IF_ERROR(RequireWidth("width", p.width, kLargestWideWidth));
  return RequireEpsilon(p.epsilon);
}

absl::Status ValidateGeluRows(const GeluRowsParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"hidden", p.hidden}, {"b1", p.b1}}));
  RETURN_IF_ERROR(RequirePositive({{"rows", p.rows}}));
  return RequireWidth("width", p.width, kLargestWideHidden);
}

absl::Status ValidateStoreKv(const StoreKvParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"tiles", p.tiles}, {"qkv", p.qkv}}));
  RETURN_IF_ERROR(RequirePositive({{"tile_count", p.tile_count}}));
  RETURN_IF_ERROR(RequireNotNegative({{"kv_layer", p.kv_layer}}));
  return ValidateHeads(p.shape);
}

}  // namespace chorale::kernels::cuda
