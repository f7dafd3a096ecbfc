// The period of a series, if it has one.
#ifndef CHORALE_ENGINE_DATA_PERIOD_SEARCH_H_
#define CHORALE_ENGINE_DATA_PERIOD_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// Most regressors. Where there are more, no period is sought.
inline constexpr int64_t kMostRegressors = 96;
// That there is no season and the target looks like it all the same, at most.
inline constexpr double kSeasonLevel = 1e-3;

// Where t spans more steps a row, no period is sought.
inline constexpr double kMostStepsPerRow = 4;

struct FoundPeriod {
  double period = 0;  // in the unit of t
  double chance = 1;  // that there is none and y looks like it all the same
};

// The most likely period of y [n] by t [n], which ascends in steps of about 1; nothing where it
// cannot be told. `others` are columns [n] that may explain y without it. With y z-scored, and u
// the standardised t, the rows after the first p are fitted twice by least squares:
//
//   y_i = a + b u_i + c u_i^2 + sum_k d_k y_{i-k} + others_i e                 squares left: R_0
//   the same + sum_{h=1,2} f_h sin(2 pi h t_i / P) + g_h cos(2 pi h t_i / P)                 R_1
//
// u^2 from 64 rows on; p = 1 to 4 values before, one for every 8 rows (a random walk or a smooth
// series would look periodic otherwise), and 0 where these leave nothing to explain, as in a pure
// wave. By chance alone r = R_1 / R_0 follows a Beta distribution of n/2 and 2, n the degrees of
// freedom left, so it is at most r with the probability r^(n/2) (1 + n/2 (1 - r)).
//
// P is that of the smallest R_1 on a grid of frequencies, from 3 steps to 1/2.5 of the span,
// refined twice; a whole number of steps where that is as good; its double or triple where the two
// waves that this adds have a chance of at most kSeasonLevel. The chance is that of P, times the
// number of frequencies that can be told apart. The formula is that of
// models/research/training/prior/phase_column.py, whose thresholds were chosen on made-up series
// (models/research/evaluate/seasons.md).
//
// Nothing either where t spans more than kMostStepsPerRow steps a row. So the time is bounded by
// the product of rows, 8 rows (frequencies) and regressors. Pure arithmetic, with sums in the order
// of the rows: the same bits everywhere.
std::optional<FoundPeriod> FindPeriod(absl::Span<const double> t, absl::Span<const double> y,
                                      const std::vector<std::vector<double>>& others);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_PERIOD_SEARCH_H_
