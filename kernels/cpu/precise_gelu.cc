#include "kernels/ops/precise_gelu.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/enabled_targets.h"
#include "kernels/cpu/export_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/precise_gelu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Include after highway.h: compiled once per target.
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/fma_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {

using F64 = hn::ScalableTag<double>;
using VF64 = hn::Vec<F64>;

// Vectors in lockstep: latency would limit a single polynomial.
inline constexpr int kTogether = 4;
inline constexpr int64_t kBatch = kTogether * static_cast<int64_t>(HWY_LANES(double));

// tail[i] = Phi(-u[i]) for 0 <= u <= 16, with a relative error below 1e-14, of which 3e-15 is due
// to the polynomial. Phi(-u) exp(u^2 / 2) falls slowly from 1/2, and is approximated by a
// polynomial in w = (1.75 u - 6) / (u + 6), which runs from -1 to 1. The coefficients are a
// Chebyshev fit of this project.
HWY_INLINE void NormalTail(F64 d, const VF64 (&u)[kTogether], VF64 (&tail)[kTogether]) {
  constexpr double kCoefficients[] = {
      0x1.2bafbe4fa0adap-34, 0x1.dec1c9a95a9c2p-33,  -0x1.e5fe880a8ade5p-30, -0x1.7033ddc7a37dcp-29,
      0x1.4575320c019f6p-25, -0x1.29af3e71e089dp-25, -0x1.5d228923e9ecdp-21, 0x1.9c4e2b3e967a0p-19,
      0x1.764743ec23a3cp-21, -0x1.41008ebb5015ap-14, 0x1.06b513a94fd88p-11,  -0x1.11bb2cdb7d2b7p-9,
      0x1.b38e0292a9256p-8,  -0x1.1a01c22927ccfp-6,  0x1.323c3b33193bdp-5,   -0x1.1b2821c99ab9ep-4,
      0x1.c0ed8176598a0p-4,  -0x1.314f395112304p-3,  0x1.bb8c107b8b727p-4};
  VF64 w[kTogether];
  CHORALE_UNROLL
  for (int i = 0; i < kTogether; ++i) {
    w[i] = hn::Div(hn::MulAdd(u[i], hn::Set(d, 1.75), hn::Set(d, -6.0)),
                   hn::Add(u[i], hn::Set(d, 6.0)));
    tail[i] = hn::Set(d, kCoefficients[0]);
  }
  CHORALE_UNROLL
  for (int c = 1; c < 19; ++c) {
    CHORALE_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      tail[i] = hn::MulAdd(tail[i], w[i], hn::Set(d, kCoefficients[c]));
    }
  }
  CHORALE_UNROLL
  for (int i = 0; i < kTogether; ++i) {
    const VF64 exponent = hn::Mul(hn::Mul(u[i], hn::Set(d, -0.5)), u[i]);
    tail[i] = hn::Mul(tail[i], hn::Exp(d, exponent));
  }
}

// y [kBatch] = gelu(x [kBatch]). Beyond 16 standard deviations, the tail is zero in float32.
HWY_INLINE void GeluOfBatch(const double* x, float* y) {
  constexpr double kLimit = 16;
  const F64 d;
  VF64 v[kTogether];
  VF64 u[kTogether];
  VF64 tail[kTogether];
  CHORALE_UNROLL
  for (int i = 0; i < kTogether; ++i) {
    v[i] = hn::LoadU(d, x + i * HWY_LANES(double));
    u[i] = hn::Min(hn::Abs(v[i]), hn::Set(d, kLimit));
  }
  NormalTail(d, u, tail);
  HWY_ALIGN double gelu[kBatch];
  CHORALE_UNROLL
  for (int i = 0; i < kTogether; ++i) {
    const VF64 below = hn::Mul(hn::Neg(u[i]), tail[i]);
    const VF64 above = hn::Mul(v[i], hn::Sub(hn::Set(d, 1.0), tail[i]));
    hn::Store(hn::IfThenElse(hn::Lt(v[i], hn::Zero(d)), below, above), d,
              gelu + i * HWY_LANES(double));
  }
  // Not DemoteTo, whose result for values beyond the range of float32 depends on the target.
  for (int64_t i = 0; i < kBatch; ++i) y[i] = static_cast<float>(gelu[i]);
}

void PreciseGelu(const PreciseGeluParams& p) {
  int64_t i = 0;
  for (; i + kBatch <= p.n; i += kBatch) GeluOfBatch(p.x + i, p.y + i);
  if (i == p.n) return;
  double x[kBatch] = {};
  float y[kBatch];
  std::copy(p.x + i, p.x + p.n, x);
  GeluOfBatch(x, y);
  std::copy_n(y, p.n - i, p.y + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
CHORALE_EXPORT_KERNEL(PreciseGelu)
#endif  // HWY_ONCE
