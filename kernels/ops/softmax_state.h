// The state (m, l, o) of an online softmax in all attention kernels.
//
// For the processed keys, with scores s and values v:
//
//   m    largest score; -inf for no key
//   l    sum of exp(s - m); 0 for no key
//   o    sum of exp(s - m) v, not divided by l; 0 for no key
//
// The attention output is o / l, or 0 for no key. log-sum-exp is m + log(l), natural logarithm.
// Kernels that compute in units of log 2 keep m in those units.
//
// Two states over disjoint sets of keys merge into the state of the union:
//
//   m = max(m1, m2),   l = l1 exp(m1 - m) + l2 exp(m2 - m),   o likewise
//
// The factor of an empty state is 0, so that -inf minus -inf is never computed. Scores are never
// clamped.
#ifndef CHORALE_KERNELS_OPS_SOFTMAX_STATE_H_
#define CHORALE_KERNELS_OPS_SOFTMAX_STATE_H_

namespace chorale::kernels {

// A term exp(s - m) with s - m below this counts as zero. It is smaller than half a unit in the
// last place of l (l >= 1) by a factor of 10^30, and flushing it avoids denormal numbers.
inline constexpr float kFlushToZero = -87.0f;

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_SOFTMAX_STATE_H_
