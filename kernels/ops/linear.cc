#include "kernels/ops/linear.h"

#include <algorithm>

#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"
#include "kernels/ops/panel_layout.h"

namespace chorale::kernels {

absl::Status ValidateLinear(const LinearParams& p) {
  RETURN_IF_ERROR(RequireNotNull({{"x", p.x}, {"weight", p.weight}, {"y", p.y}}));
  RETURN_IF_ERROR(RequirePositive({{"rows", p.rows}, {"in", p.in}, {"out", p.out}}));
  RETURN_IF_ERROR(RequireAtLeast({"x_stride", p.x_stride}, p.in));
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
