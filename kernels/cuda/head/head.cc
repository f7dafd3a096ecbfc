#include "kernels/cuda/head/head.h"

#include <algorithm>
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

float LargestSize(const std::vector<float>& values) {
  float largest = 0;
  for (const float v : values) largest = std::max(largest, std::fabs(v));
  return largest;
}

// The power of two by which numbers up to `largest` are at most 2^15, half of the range: bounds
// are without the rounding of sums. Limits keep products of two scales in the range of float32.
float ScaleOf(double largest) {
  constexpr int kMostBits = 60;
  const int bits = largest > 0 ? 14 - std::ilogb(largest) : 0;
  return std::ldexp(1.0f, std::clamp(bits, -kMostBits, kMostBits));
}

double Norm(const float* values, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(values[i]) * values[i];
  return std::sqrt(sum);
}

}  // namespace

HeadScales HeadScalesOf(const std::vector<float>& gamma, const std::vector<float>& beta,
                        const Matrix& w1, const std::vector<float>& b1, const Matrix& w2) {
  const double normalized = std::sqrt(static_cast<double>(w1.in)) * LargestSize(gamma);
  double largest_row = 0;
  for (int64_t o = 0; o < w1.out; ++o) {
    largest_row = std::max(largest_row, Norm(w1.values.data() + o * w1.in, w1.in));
  }
  const double norm_of_z = normalized + Norm(beta.data(), static_cast<int64_t>(beta.size()));
  return {.w1 = ScaleOf(LargestSize(w1.values)),
          .z = ScaleOf(normalized + LargestSize(beta)),
          .w2 = ScaleOf(LargestSize(w2.values)),
          .hidden = ScaleOf(largest_row * norm_of_z + LargestSize(b1))};
}

absl::Status ValidateHead(const HeadParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"tiles", p.tiles},
                                  {"x", p.x},
                                  {"weights.gamma", p.weights.gamma},
                                  {"weights.beta", p.weights.beta},
                                  {"weights.w1", p.weights.w1}}));
  RETURN_IF_ERROR(RequirePositive({{"shape.width", p.shape.width}}));
  RETURN_IF_ERROR(ValidateMixture(p));
  if (p.shape.width % 4 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape.width is ", p.shape.width, ", must be a multiple of 4"));
  }
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

std::vector<uint16_t> PackHeadMap(const Matrix& map, float scale) {
  const int outputs = static_cast<int>(map.out);
  const int inputs = static_cast<int>(map.in);
  std::vector<uint16_t> packed(HeadMapSize(outputs, inputs));
  for (int o = 0; o < outputs; ++o) {
    for (int i = 0; i < inputs; ++i) {
      const float weight = map.values[int64_t{o} * inputs + i] * scale;
      uint16_t* const to = packed.data() + HeadMapAt(o, i, inputs);
      to[0] = ToFp16(weight);
      to[kHeadFragment / 2] = ToFp16(weight - FromFp16(to[0]));
    }
  }
  return packed;
}

int HeadSharedBytes(const ModelShape& shape) { return HeadLayoutOf(shape, 1).bytes; }
int UnfusedHeadSharedBytes(int32_t components) { return UnfusedHeadLayoutOf(components).bytes; }

}  // namespace chorale::kernels::cuda
