// A row's mixture on an interval, in float64, accurate in its tails.
#ifndef CHORALE_KERNELS_OPS_TRUNCATED_MIXTURE_H_
#define CHORALE_KERNELS_OPS_TRUNCATED_MIXTURE_H_

#include <cstdint>

#include "kernels/ops/mixture_head.h"

namespace chorale::kernels {

// log P(low <= Y <= high), natural log. The ends may be infinite. REQUIRES: low <= high.
double MixtureLogInterval(const MixtureView& mixture, double low, double high);

// Random numbers in (0, 1): of the component, and of the value in it.
struct TruncatedDraw {
  double component = 0;
  double value = 0;
};

// The random numbers of a path whose last value is drawn from an interval (stream kTruncated).
TruncatedDraw DrawTruncated(uint64_t seed, uint64_t path);

// Draws Y given low <= Y <= high: a component by its probability in the interval, in the order of
// the means, and the value by its inverse cdf. A greater draw.value never gives a smaller value. If
// the interval has no probability, even as a logarithm, returns its end that is nearest to the
// mean. REQUIRES: low <= high, one of which is finite.
double MixtureTruncatedDraw(const MixtureView& mixture, double low, double high,
                            const TruncatedDraw& draw);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_TRUNCATED_MIXTURE_H_
