// Statistics over the paths of a request, and functionals of a path.
#ifndef CHORALE_ENGINE_SESSION_PATH_STATISTICS_H_
#define CHORALE_ENGINE_SESSION_PATH_STATISTICS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/api/request.h"

namespace chorale {

struct PathStatistics {
  double mean = 0;
  double mean_error = 0;  // std / sqrt(B)
  double std = 0;         // divisor B - 1
  std::vector<double> quantiles;
  std::vector<double> quantile_errors;
};

// Returns the statistics of a number of which each of B >= 2 paths has a value.
//
// Quantiles are interpolated linearly, at position q (B - 1) of the ascending values (definition 7
// of Hyndman and Fan, "Sample quantiles in statistical packages", 1996). The standard error of a
// quantile is half the distance of the quantiles at q - s and q + s, s = sqrt(q (1 - q) / B): the
// number of values below the quantile has a binomial distribution, whose standard deviation is B s.
PathStatistics StatisticsOf(std::vector<double> values, absl::Span<const double> quantiles);

// Returns true if a functional has a value for each of its rows, and not one for each group.
bool IsOfEachRow(FunctionalType type);

// Evaluates the functional for the values of a path at its rows, or at those of one group.
// `weights` are those of these rows, or empty. `out` has a number for each row if IsOfEachRow,
// otherwise one. REQUIRES: `values` is not empty.
void Evaluate(const Functional& functional, absl::Span<const double> values,
              absl::Span<const double> weights, absl::Span<double> out);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_PATH_STATISTICS_H_
