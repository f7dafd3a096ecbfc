// The weights of the paths of a request with known totals.
#ifndef CHORALE_ENGINE_SESSION_TOTAL_WEIGHTS_H_
#define CHORALE_ENGINE_SESSION_TOTAL_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "engine/session/known_total.h"

namespace chorale {

// The weight of each path of each group: 1 until it is set. Thread-compatible.
class TotalWeights {
 public:
  TotalWeights(int64_t paths, int64_t groups);

  void Set(int64_t path, int64_t group, const LastValue& last);

  // --- Once all weights were set --------------------------------------------------------------
  // [B, G]: log of the weights. In a group with a path whose weight is a probability, that is the
  // probability of the total, beside which densities are 0.
  std::vector<double> LogWeights() const;

 private:
  const int64_t groups_;
  std::vector<double> log_weights_;    // [B, G]
  std::vector<bool> is_density_;       // [B, G]
  std::vector<bool> has_probability_;  // [G]: of a path on which the total is possible
};

// [G]: Kish's effective sample size of each group, (sum w)^2 / sum w^2; 0 if all weights are 0.
// `log_weights` is [B, G].
std::vector<double> EffectiveSampleSizes(const std::vector<double>& log_weights, int64_t groups);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_TOTAL_WEIGHTS_H_
