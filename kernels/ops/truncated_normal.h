// The standard normal distribution on an interval, in float64, accurate in its tails.
#ifndef CHORALE_KERNELS_OPS_TRUNCATED_NORMAL_H_
#define CHORALE_KERNELS_OPS_TRUNCATED_NORMAL_H_

namespace chorale::kernels {

// log P(Z <= z), natural log, with an absolute error of about 1e-15 times its magnitude.
double LogNormalCdf(double z);

// log P(low <= Z <= high), natural log. The ends may be infinite. REQUIRES: low <= high; -inf if
// they are equal.
double LogNormalInterval(double low, double high);

// The quantile of Z on the interval: the z in [low, high] with P(Z <= z | low <= Z <= high) =
// probability. REQUIRES: low <= high, 0 < probability < 1.
double TruncatedNormalQuantile(double low, double high, double probability);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_TRUNCATED_NORMAL_H_
