#include "kernels/linear.h"

#include <algorithm>

#include "kernels/field_checks.h"
#include "kernels/layout.h"

namespace chorale::kernels {

absl::Status ValidateLinear(const LinearParams& p) {
  if (absl::Status s = RequireNotNull({{"x", p.x}, {"weight", p.weight}, {"y", p.y}}); !s.ok()) {
    return s;
  }
  if (absl::Status s = RequirePositive({{"rows", p.rows}, {"in", p.in}, {"out", p.out}}); !s.ok()) {
    return s;
  }
  if (absl::Status s = RequireAtLeast({"x_stride", p.x_stride}, p.in); !s.ok()) return s;
  return RequireAtLeast({"y_stride", p.y_stride}, p.out);
}

void PackLinearWeight(const float* weight, int64_t out, int64_t in, float* packed) {
  for (int64_t panel = 0; panel * kPanel < out; ++panel) {
    float* to = packed + panel * in * kPanel;
    const int64_t columns = std::min(kPanel, out - panel * kPanel);
    for (int64_t i = 0; i < in; ++i) {
      for (int64_t c = 0; c < kPanel; ++c) {
        to[i * kPanel + c] = c < columns ? weight[(panel * kPanel + c) * in + i] : 0.0f;
      }
    }
  }
}

}  // namespace chorale::kernels
