// The keys that a K/V head keeps of those of a set and a segment (engine/backend/memory_plan.h).
#ifndef CHORALE_ENGINE_BACKEND_HOST_CHOOSE_KEYS_H_
#define CHORALE_ENGINE_BACKEND_HOST_CHOOSE_KEYS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// Groups of keys, one for each key of the new set, which is the weighted mean of its group
// (kernels/ops/merge_keys.h).
struct KeyGroups {
  std::vector<int32_t> member;       // of all groups, one group after the other
  std::vector<int32_t> group_begin;  // [groups + 1], into `member`
  // The logarithms of the weights of the new keys, [groups]. Empty: those of the merged keys.
  std::vector<float> log_weights;

  int64_t groups() const { return static_cast<int64_t>(group_begin.size()) - 1; }
};

// What a choice by importance is made from; arrays have an element for each of the n keys.
struct KeysToChooseFrom {
  // Negative numbers and NaN count as 0, and infinity as 1e300.
  absl::Span<const double> importance;
  absl::Span<const float> log_weights;
  // The table's row of each key, distinct: of equally important keys, those of the smaller rows are
  // kept.
  absl::Span<const int32_t> rows;
};

// All n keys, in their order, with their weights.
KeyGroups KeepAllKeys(int64_t n);

// The groups of kernels::SpreadKeys: the keys whose nearest centre is c become group c.
KeyGroups GroupByCentre(absl::Span<const int32_t> nearest, int64_t centres);

// The `count` most important keys, in their order, with weights of 1. REQUIRES: count <= n.
KeyGroups KeepHeaviest(const KeysToChooseFrom& keys, int64_t count);

// `count` keys drawn without replacement, in their order, by priority sampling (Duffield, Lund and
// Thorup 2007). The probability of key j is about proportional to
//
//   v_j = 0.9 sqrt(importance_j) / sum of sqrt(importance) + 0.1 w_j / sum of w
//
// or to w_j if no key is important. Its priority is v_j / u_j, with u_j uniform in (0, 1): the
// largest priorities are drawn, and with t the largest priority that is not, the weights become
// w_j max(1, t / v_j), so that sums over keys are kept on average. u_j = (b + 1/2) 2^-53, b being
// the upper 53 of the 64 bits of words 1 and 0 of the Philox block (kernels/ops/random.h) of
// path = stream, step = j, RandomStream::kKeep. REQUIRES: count <= n; all n are kept as they are.
KeyGroups SampleKeys(const KeysToChooseFrom& keys, int64_t count, uint64_t seed, uint32_t stream);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_HOST_CHOOSE_KEYS_H_
