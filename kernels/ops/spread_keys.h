// Centres that are spread out over the keys of a K/V head, by k-means++ (Arthur and Vassilvitskii
// 2007), and the nearest centre of every key.
//
// Centres are drawn without replacement in groups of kCentresAtOnce. The probability of a key is
// proportional to w d^2: w is its weight, d its Euclidean distance to the nearest centre of the
// earlier groups. The first group is drawn by w alone. To draw, each key j has the priority
//
//   w_j max(d_j^2, 1e-30) / -log(1 - u_j),   u_j uniform in (0, 1)
//
// and the largest priorities are drawn, of equal priorities the first key. u_j = (r + 1/2) 2^-32
// for word r = j mod 4 of the Philox block (kernels/ops/random.h) of
//
//   path = stream * 2^32 + index of the group,   step = floor(j / 4),   RandomStream::kCentre
//
// A key joins the nearest centre, of equally near centres the first; a centre joins itself. A
// square of a distance that is greater than FLT_MAX, or NaN, counts as FLT_MAX.
#ifndef CHORALE_KERNELS_OPS_SPREAD_KEYS_H_
#define CHORALE_KERNELS_OPS_SPREAD_KEYS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

inline constexpr int64_t kCentresAtOnce = 8;

// One call draws centres [first_centre, end_centre). A sequence of calls draws all `centre_count`
// centres, in any division into groups; the arrays of the state carry over from call to call.
struct SpreadKeysParams {
  const float* keys = nullptr;         // packed keys of one K/V head, see panel_layout.h
  const float* log_weights = nullptr;  // [n], finite; null: all weights are 1

  // The state: written by the call with first_centre = 0, updated by later calls. `distance` and
  // `nearest` have room for full panels.
  double* weight = nullptr;    // [n], relative to the largest
  float* distance = nullptr;   // [RoundUp(n, kPanel)], squared, at most FLT_MAX; -1 of a centre
  int32_t* nearest = nullptr;  // [RoundUp(n, kPanel)], index of a centre
  int32_t* centres = nullptr;  // [centre_count], distinct keys

  int64_t n = 0;
  int64_t head_dim = 0;      // Dh
  int64_t centre_count = 0;  // at most n
  int64_t first_centre = 0;  // a multiple of kCentresAtOnce
  int64_t end_centre = 0;    // a multiple of kCentresAtOnce, or centre_count
  uint64_t seed = 0;
  uint32_t stream = 0;
};

// The part of the parameters that says which centres a call draws.
struct CentreRange {
  int64_t n = 0;
  int64_t centre_count = 0;
  int64_t first_centre = 0;
  int64_t end_centre = 0;
};
absl::Status ValidateCentres(const CentreRange& range);

absl::Status ValidateSpreadKeys(const SpreadKeysParams& params);

// REQUIRES: ValidateSpreadKeys(params).ok().
void SpreadKeys(const SpreadKeysParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_SPREAD_KEYS_H_
