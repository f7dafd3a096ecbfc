// Statistics over the paths of a request, and functionals of a path.
#ifndef CHORALE_ENGINE_SESSION_PATH_STATISTICS_H_
#define CHORALE_ENGINE_SESSION_PATH_STATISTICS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/api/request.h"

namespace chorale {

// How the paths of a request depend on each other, for the standard errors of statistics. With
// Sobol points, only replicates are independent: the error is that of the mean of the R replicates'
// own statistics, their standard deviation (divisor R - 1) divided by sqrt(R).
struct PathDependence {
  int64_t replicates = 0;  // R: path p belongs to replicate p mod R; 0: all paths are independent
};

PathDependence DependenceOf(const SampleRequest& request);

// Returns the standard error of the mean of a number of each path: std / sqrt(B) for independent
// paths. REQUIRES: at least 2 paths, and one of each replicate.
double ErrorOfMean(absl::Span<const double> values, const PathDependence& dependence);

struct PathStatistics {
  double mean = 0;
  double mean_error = 0;  // ErrorOfMean
  double std = 0;         // divisor B - 1
  std::vector<double> quantiles;
  std::vector<double> quantile_errors;
};

// Returns the statistics of a number of which each of B >= 2 paths has a value, and of which each
// replicate has one.
//
// Quantiles are interpolated linearly, at position q (B - 1) of the ascending values (definition 7
// of Hyndman and Fan, "Sample quantiles in statistical packages", 1996). For independent paths, the
// standard error of a quantile is half the distance of the quantiles at q - s and q + s, s = sqrt(q
// (1 - q) / B): the number of values below the quantile has a binomial distribution, whose standard
// deviation is B s.
PathStatistics StatisticsOf(std::vector<double> values, absl::Span<const double> quantiles,
                            const PathDependence& dependence = {});

// Returns the error of the mean of a number that is 0 on each of B paths, or 1 on each, although it
// could be another one on other paths: that of a probability of 1 / (B + 2), the mean of the
// Beta(1, B + 1) distribution (the rule of succession).
double ErrorOfSettledEvent(int64_t paths);

// Returns true if the number of a functional is between 0 and 1, and its mean a probability.
bool IsEvent(FunctionalType type);

// Returns true if a functional has a value for each of its rows, and not one for each group.
bool IsOfEachRow(FunctionalType type);

// Evaluates the functional for the values of a path at its rows, or at those of one group.
// `weights` are those of these rows, or empty. `out` has a number for each row if IsOfEachRow,
// otherwise one. REQUIRES: `values` is not empty.
void Evaluate(const Functional& functional, absl::Span<const double> values,
              absl::Span<const double> weights, absl::Span<double> out);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_PATH_STATISTICS_H_
