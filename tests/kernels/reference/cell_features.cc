#include <cmath>

#include "tests/kernels/reference/reference.h"

namespace chorale::kernels::reference {
namespace {

void NumberFeatures(double x, float* out) {
  const double limit = kSoftLimit;
  double clipped = x;
  if (std::abs(x) > limit) clipped = std::copysign(limit + std::log1p(std::abs(x) - limit), x);
  out[0] = static_cast<float>(clipped);
  double frequency = 1;
  for (int64_t k = 0; k < kFrequencies; ++k) {
    out[1 + k] = static_cast<float>(std::sin(frequency * clipped));
    out[1 + kFrequencies + k] = static_cast<float>(std::cos(frequency * clipped));
    frequency *= 2;
  }
}

}  // namespace

void CellFeatures(const CellFeaturesParams& p) {
  for (int64_t row = 0; row < p.rows; ++row) {
    float* out = p.out + row * p.width();
    const bool missing = p.missing != nullptr && p.missing[row * p.value_stride] != 0;
    NumberFeatures(p.values[row * p.value_stride], out);
    if (missing) {
      for (int64_t i = 0; i < kNumberFeatures; ++i) out[i] = 0;
    }
    out[kNumberFeatures] = missing ? 1.0f : 0.0f;
    out[kNumberFeatures + 1] = p.categorical;
    if (p.y != nullptr) NumberFeatures(p.y[row], out + kCellFeatures);
  }
}

}  // namespace chorale::kernels::reference
