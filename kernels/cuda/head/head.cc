#include "kernels/cuda/head/head.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/head/head_layout.h"
#include "kernels/cuda/head/unfused_head.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels::cuda {

namespace {

// What both forms of the head have.
absl::Status ValidateMixture(const HeadParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"weights.b1", p.weights.b1},
                                  {"weights.w2", p.weights.w2},
                                  {"weights.b2", p.weights.b2},
                                  {"weights.mean_bias", p.weights.mean_bias},
                                  {"weights.std_bias", p.weights.std_bias},
                                  {"weights.weight_bias", p.weights.weight_bias}}));
  if (p.paths == nullptr) {
    RETURN_IF_ERROR(RequireNotNull({{"mixtures", p.mixtures}}));
  }
  RETURN_IF_ERROR(RequirePositive({{"tile_count", p.tile_count},
                                   {"shape.hidden", p.shape.hidden},
                                   {"shape.components", p.shape.components}}));
  if (p.shape.components > kMostComponents) {
    return absl::InvalidArgumentError(absl::StrCat("shape.components is ", p.shape.components,
                                                   ", must be at most ", kMostComponents));
  }
  if (!(p.std_min >= 0) || !std::isfinite(p.std_min)) {
    return absl::InvalidArgumentError("std_min must be finite and at least 0");
  }
  if (!(p.std_max > 0)) return absl::InvalidArgumentError("std_max must be greater than 0");
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateHead(const HeadParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"tiles", p.tiles},
                                  {"x", p.x},
                                  {"weights.gamma", p.weights.gamma},
                                  {"weights.beta", p.weights.beta},
                                  {"weights.w1", p.weights.w1}}));
  RETURN_IF_ERROR(RequirePositive({{"shape.width", p.shape.width}}));
  RETURN_IF_ERROR(ValidateMixture(p));
  if (p.shape.hidden > kLargestHidden) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape.hidden is ", p.shape.hidden, ", must be at most ", kLargestHidden));
  }
  return absl::OkStatus();
}

absl::Status ValidateUnfusedHead(const UnfusedHeadParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"tiles", p.head.tiles}, {"h", p.h}}));
  RETURN_IF_ERROR(ValidateMixture(p.head));
  if (p.head.shape.hidden % 8 == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("shape.hidden is ", p.head.shape.hidden, ", must be a multiple of 8"));
}

std::vector<float> PackHeadMap(const Matrix& map) {
  const int outputs = static_cast<int>(map.out);
  const int inputs = static_cast<int>(map.in);
  std::vector<float> packed(HeadMapSize(outputs, inputs));
  for (int o = 0; o < outputs; ++o) {
    for (int i = 0; i < inputs; ++i) {
      packed[HeadMapAt(o, i, inputs)] = map.values[int64_t{o} * inputs + i];
    }
  }
  return packed;
}

int HeadSharedBytes(const ModelShape& shape) { return HeadLayoutOf(shape).bytes; }
int UnfusedHeadSharedBytes(int32_t components) { return UnfusedHeadLayoutOf(components).bytes; }

}  // namespace chorale::kernels::cuda
