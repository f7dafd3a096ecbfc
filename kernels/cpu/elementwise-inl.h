// 2^x and GELU on vectors. Coefficients are this project's own minimax fits.
//
// Compiled once per SIMD target, hence no ordinary include guard.
#if defined(CHORALE_KERNELS_CPU_ELEMENTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHORALE_KERNELS_CPU_ELEMENTWISE_INL_H_
#undef CHORALE_KERNELS_CPU_ELEMENTWISE_INL_H_
#else
#define CHORALE_KERNELS_CPU_ELEMENTWISE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/fma_tile-inl.h"
#include "kernels/softmax_state.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr float kFlushToZeroLog2 = kFlushToZero * kLog2E;

// 2^x for x <= 0: zero below kFlushToZeroLog2 (so also for -inf), exactly 1 at 0, NaN for NaN.
// Relative error below 1.6e-7 (1.3 units in the last place).
template <class D>
HWY_INLINE hn::Vec<D> Exp2NonPositive(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  // Adding 1.5 * 2^23 leaves round(x) in the low bits of the mantissa.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto shifted = hn::Add(x, magic);
  const auto fraction = hn::Sub(x, hn::Sub(shifted, magic));  // in [-1/2, 1/2]
  auto p = hn::Set(d, 0x1.5bba14p-10f);
  p = hn::MulAdd(p, fraction, hn::Set(d, 0x1.3cea88p-7f));
  p = hn::MulAdd(p, fraction, hn::Set(d, 0x1.c6b752p-5f));
  p = hn::MulAdd(p, fraction, hn::Set(d, 0x1.ebf9bcp-3f));
  p = hn::MulAdd(p, fraction, hn::Set(d, 0x1.62e42ap-1f));
  p = hn::MulAdd(p, fraction, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  const auto result = hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kFlushToZeroLog2)), result);
}

// x/2 (1 + erf(x / sqrt 2)). Absolute error below 1.3e-7 |x|, about one unit in the last place
// of x, and 1.7e-7 |x| on machines without fused multiply-add. erf(x / sqrt 2) / 2x is a polynomial in v = 2 x^2 / X^2 - 1 for |x| <= X = 5.6, beyond which
// erf is 1 in float32. Centring v in [-1, 1] keeps the polynomial's terms from cancelling.
template <class D>
HWY_INLINE hn::Vec<D> Gelu(D d, hn::Vec<D> x) {
  constexpr float kLimit = 5.6f;
  constexpr float kCoefficients[] = {
      1.4509447e-04f, -3.8963323e-04f, 3.0835887e-04f,  -4.2296134e-04f, 1.5947911e-03f,
      -3.149275e-03f, 4.7296663e-03f,  -7.3424294e-03f, 1.1232711e-02f,  -1.5828062e-02f,
      2.088756e-02f,  -2.6298007e-02f, 3.1975545e-02f,  -3.8346652e-02f, 4.6980664e-02f,
      -6.305126e-02f, 1.262596e-01f};
  const auto bounded = hn::Max(hn::Min(x, hn::Set(d, kLimit)), hn::Set(d, -kLimit));
  const auto v = hn::MulAdd(hn::Mul(bounded, bounded), hn::Set(d, 2.0f / (kLimit * kLimit)),
                            hn::Set(d, -1.0f));
  auto p = hn::Set(d, kCoefficients[0]);
  CHORALE_UNROLL
  for (int i = 1; i < 17; ++i) p = hn::MulAdd(p, v, hn::Set(d, kCoefficients[i]));
  // x times the normal distribution function.
  return hn::Mul(x, hn::MulAdd(p, bounded, hn::Set(d, 0.5f)));
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
