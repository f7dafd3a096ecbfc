// A row's mixture on an interval, in float64, accurate in its tails.
#ifndef CHORALE_KERNELS_OPS_TRUNCATED_MIXTURE_H_
#define CHORALE_KERNELS_OPS_TRUNCATED_MIXTURE_H_

#include <cstdint>
#include <vector>

#include "kernels/ops/mixture_head.h"

namespace chorale::kernels {

// Random numbers in (0, 1): of the component, and of the value in it.
struct TruncatedDraw {
  double component = 0;
  double value = 0;
};

// The random numbers of a path whose last value is drawn from an interval (stream kTruncated).
TruncatedDraw DrawTruncated(uint64_t seed, uint64_t path);

// The distribution of Y given low <= Y <= high.
class TruncatedMixture {
 public:
  // The ends may be infinite. REQUIRES: low <= high; `mixture` outlives this object.
  TruncatedMixture(const MixtureView& mixture, double low, double high);

  // log P(low <= Y <= high), natural log.
  double log_probability() const;
  // Draws Y: a component by its probability in the interval, in the order of the means, and the
  // value by its inverse cdf. A greater draw.value never gives a smaller value. If the interval has
  // no probability, even as a logarithm, returns its end that is nearest to the mean. REQUIRES: an
  // end is finite.
  double Draw(const TruncatedDraw& draw) const;

 private:
  const MixtureView mixture_;
  const double low_;
  const double high_;
  double log_largest_ = 0;     // the largest log of the probability of a component in the interval
  std::vector<double> parts_;  // [M]: these probabilities, relative to the largest
  double total_ = 0;           // of parts_
};

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_TRUNCATED_MIXTURE_H_
