// The state of an online softmax, and the one place where the log-sum-exp convention is fixed.
//
// With s the scores and v the values of the keys seen so far:
//
// m is the largest score, in natural units; -inf when no key was seen.
//
// l is the sum of exp(s - m); 0 when no key was seen.
//
// o is the sum of exp(s - m) v: unnormalised inside a kernel, divided by l wherever it is stored.
//
// lse is m + log(l), natural logarithm; -inf for an empty set of keys.
//
// An empty set has lse = -inf and output 0, and merging with it is the identity. Scores are never
// clamped. A term exp(s - m) with s - m < kFlushToZero counts as zero: it is below half a unit in
// the last place of l (l >= 1) by a factor of 10^30, and saves the kernels from denormal numbers.
//
// SoftmaxState, RescaleFactor and Merge are the definition that the kernels implement for many rows
// at once, and how attention that was split over several sets of keys is put together; tests hold
// the kernels to them.
#ifndef CHORALE_KERNELS_OPS_SOFTMAX_STATE_H_
#define CHORALE_KERNELS_OPS_SOFTMAX_STATE_H_

#include <cmath>
#include <limits>

namespace chorale::kernels {

inline constexpr float kEmptyLse = -std::numeric_limits<float>::infinity();
inline constexpr float kFlushToZero = -87.0f;

template <typename T>
struct SoftmaxState {
  T m = -std::numeric_limits<T>::infinity();
  T l = 0;

  T lse() const { return l > 0 ? m + std::log(l) : -std::numeric_limits<T>::infinity(); }
};

// The factor by which the (l, o) of a side with maximum `m` is multiplied when the joint maximum is
// `merged_m`. Zero for an empty side, so that -inf minus -inf never happens.
template <typename T>
T RescaleFactor(T m, T merged_m) {
  return m == -std::numeric_limits<T>::infinity() ? T{0} : std::exp(m - merged_m);
}

template <typename T>
SoftmaxState<T> Merge(const SoftmaxState<T>& a, const SoftmaxState<T>& b) {
  const T m = a.m > b.m ? a.m : b.m;
  return {m, a.l * RescaleFactor(a.m, m) + b.l * RescaleFactor(b.m, m)};
}

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_SOFTMAX_STATE_H_
