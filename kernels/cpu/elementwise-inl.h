// 2^x and GELU on vectors. The coefficients are minimax fits of this project.
//
// Compiled once per SIMD target, so it has no ordinary include guard.
#if defined(CHORALE_KERNELS_CPU_ELEMENTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHORALE_KERNELS_CPU_ELEMENTWISE_INL_H_
#undef CHORALE_KERNELS_CPU_ELEMENTWISE_INL_H_
#else
#define CHORALE_KERNELS_CPU_ELEMENTWISE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/fma_tile-inl.h"
#include "kernels/ops/softmax_state.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr float kFlushToZeroLog2 = kFlushToZero * kLog2E;

// x[i] = 2^x[i] for x <= 0: zero below kFlushToZeroLog2 (including -inf), exactly 1 at 0, NaN for
// NaN. Relative error below 1.6e-7 (1.3 units in the last place).
//
// Here and below, several vectors advance in lockstep: the latency of multiply-adds would limit one
// polynomial after the other.
template <class D, int kCount>
HWY_INLINE void Exp2NonPositive(D d, hn::Vec<D> (&x)[kCount]) {
  constexpr float kCoefficients[] = {0x1.5bba14p-10f, 0x1.3cea88p-7f, 0x1.c6b752p-5f,
                                     0x1.ebf9bcp-3f,  0x1.62e42ap-1f, 1.0f};
  const hn::RebindToSigned<D> di;
  // Adding 1.5 * 2^23 leaves round(x) in the low bits of the mantissa.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto least = hn::Set(d, kFlushToZeroLog2);
  hn::Vec<D> shifted[kCount];
  hn::Vec<D> fraction[kCount];  // in [-1/2, 1/2]
  hn::Vec<D> p[kCount];
  CHORALE_UNROLL
  for (int i = 0; i < kCount; ++i) {
    shifted[i] = hn::Add(x[i], magic);
    fraction[i] = hn::Sub(x[i], hn::Sub(shifted[i], magic));
    p[i] = hn::Set(d, kCoefficients[0]);
  }
  CHORALE_UNROLL
  for (int c = 1; c < 6; ++c) {
    CHORALE_UNROLL
    for (int i = 0; i < kCount; ++i) {
      p[i] = hn::MulAdd(p[i], fraction[i], hn::Set(d, kCoefficients[c]));
    }
  }
  CHORALE_UNROLL
  for (int i = 0; i < kCount; ++i) {
    const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted[i]));
    const auto power = hn::BitCast(d, hn::Add(hn::BitCast(di, p[i]), exponent));
    x[i] = hn::IfThenZeroElse(hn::Lt(x[i], least), power);
  }
}

// x[i] = x[i]/2 (1 + erf(x[i] / sqrt 2)). Absolute error below 1.3e-7 |x|, about one unit in the
// last place of x, and 1.7e-7 |x| on machines without fused multiply-add. erf(x / sqrt 2) / 2x is a
// polynomial in v = 2 x^2 / X^2 - 1 for |x| <= X = 5.6, beyond which erf is 1 in float32. v in
// [-1, 1] keeps the polynomial's terms from cancelling.
template <class D, int kCount>
HWY_INLINE void Gelu(D d, hn::Vec<D> (&x)[kCount]) {
  constexpr float kLimit = 5.6f;
  constexpr float kCoefficients[] = {
      1.4509447e-04f, -3.8963323e-04f, 3.0835887e-04f,  -4.2296134e-04f, 1.5947911e-03f,
      -3.149275e-03f, 4.7296663e-03f,  -7.3424294e-03f, 1.1232711e-02f,  -1.5828062e-02f,
      2.088756e-02f,  -2.6298007e-02f, 3.1975545e-02f,  -3.8346652e-02f, 4.6980664e-02f,
      -6.305126e-02f, 1.262596e-01f};
  hn::Vec<D> bounded[kCount];
  hn::Vec<D> v[kCount];
  hn::Vec<D> p[kCount];
  CHORALE_UNROLL
  for (int i = 0; i < kCount; ++i) {
    bounded[i] = hn::Max(hn::Min(x[i], hn::Set(d, kLimit)), hn::Set(d, -kLimit));
    v[i] = hn::MulAdd(hn::Mul(bounded[i], bounded[i]), hn::Set(d, 2.0f / (kLimit * kLimit)),
                      hn::Set(d, -1.0f));
    p[i] = hn::Set(d, kCoefficients[0]);
  }
  CHORALE_UNROLL
  for (int c = 1; c < 17; ++c) {
    CHORALE_UNROLL
    for (int i = 0; i < kCount; ++i) p[i] = hn::MulAdd(p[i], v[i], hn::Set(d, kCoefficients[c]));
  }
  CHORALE_UNROLL
  for (int i = 0; i < kCount; ++i) {
    // x times the normal distribution function of x.
    x[i] = hn::Mul(x[i], hn::MulAdd(p[i], bounded[i], hn::Set(d, 0.5f)));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
