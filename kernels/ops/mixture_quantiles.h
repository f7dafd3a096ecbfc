// Quantiles of a row's mixture, in float64.
#ifndef CHORALE_KERNELS_OPS_MIXTURE_QUANTILES_H_
#define CHORALE_KERNELS_OPS_MIXTURE_QUANTILES_H_

#include <vector>

#include "kernels/ops/mixture_head.h"

namespace chorale::kernels {

// A probability, and what quantiles of all mixtures need of it.
struct QuantileTarget {
  // 0 < probability < 1.
  explicit QuantileTarget(double probability);

  bool lower = false;  // the tail in which the mass is computed: the smaller one
  double mass = 0;     // of this tail, at most 1/2
  double normal = 0;   // the quantile of the standard normal distribution
};

// Computes quantiles of one mixture. Each result depends on the mixture and on its own probability
// alone. Thread-compatible.
class MixtureQuantiles {
 public:
  // A component, with its weight, of weights that need not sum to 1.
  struct Normal {
    double mean = 0;
    double std = 0;
    double weight = 0;
  };

  // Keeps no reference to the mixture. REQUIRES: it has components.
  explicit MixtureQuantiles(const MixtureView& mixture);
  // REQUIRES: a weight is positive.
  explicit MixtureQuantiles(const std::vector<Normal>& normals);

  // Returns the y with MixtureCdf(y) = probability, to 1e-9 of the mixture's scale.
  double At(const QuantileTarget& target) const { return At(target, mean_ + target.normal * std_); }
  // The same, faster if `start` is near.
  double At(const QuantileTarget& target, double start) const;

 private:
  struct Component {
    double mean = 0;
    double std = 0;
    double inverse_std = 0;
    double half_weight = 0;  // w_j / 2, of weights that sum to 1
    double peak = 0;         // density at the mean: w_j / (std_j sqrt(2 pi))
  };
  // At a point: the mass of a tail, the density, and the derivative of the density.
  struct Local {
    double mass = 0;
    double density = 0;
    double slope = 0;
  };
  Local LocalAt(double y, bool lower) const;

  std::vector<Component> components_;  // those with weight
  double mean_ = 0;
  double std_ = 0;
  double smallest_std_ = 0;
};

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_MIXTURE_QUANTILES_H_
