// The period that one or several series have in common, if they have one.
#ifndef CHORALE_ENGINE_DATA_PERIOD_SEARCH_H_
#define CHORALE_ENGINE_DATA_PERIOD_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace chorale {

// Most regressors. Where there are more, no period is sought.
inline constexpr int64_t kMostRegressors = 96;
// That there is no season and the target looks like it all the same, at most.
inline constexpr double kSeasonLevel = 1e-3;

// The rows of a series.
struct SeriesRows {
  std::vector<double> t;                    // [n], ascends in steps of about 1 or several
  std::vector<double> y;                    // [n]
  std::vector<std::vector<double>> others;  // columns [n] that may explain y without a season
};

// Whether the square of t is a part of the trend.
inline bool HasCurvedTrend(const SeriesRows& series) { return series.y.size() >= 64; }

struct FoundPeriod {
  double period = 0;  // in the unit of t
  double chance = 1;  // that there is none and y looks like it all the same
};

// The most likely period of y by t; nothing where it cannot be told. Each series is taken by itself
// in everything but the period. With its y z-scored, and u the standardised t, its rows after the
// first p are fitted twice by least squares:
//
//   y_i = a + b u_i + c u_i^2 + sum_k d_k y_{i-k} + others_i e                 squares left: R_0
//   the same + sum_{h=1,2} f_h sin(2 pi h t_i / P) + g_h cos(2 pi h t_i / P)                 R_1
//
// u^2 from 64 rows on. y_{i-k} is the k-th row before, however long ago that is. r is R_1 / R_0, of
// G series its mean, weighted by the degrees of freedom left to each, n together. By chance alone r
// is at most so small with the probability ChanceOfWaves(r, n, G) (engine/data/wave_fit.h). P is
// that of the smallest r on a grid of frequencies, from 3 steps to 1/2.5 of the longest span,
// refined twice; a whole number of steps, half of it, or half an odd number of steps, where these
// are as good: half of it where the chance of the wave that this leaves out, times the number of
// frequencies, is more than 1/10. There are two ways to find it.
//
//  1. A wave that lasts: with p = 1 the chance of P, times the number of frequencies that can be
//     told apart, is at most kSeasonLevel; with p = 2 its chance still is; and the chance that
//     waves which change from block to block look as much like one (ChanceOfLastingWave), times
//     that number, is, too. The largest of the three counts. Two values before tell as much as any
//     sine, so more of them would hide one; and cycles that keep no time are told from it by the
//     third condition.
//  2. Else with p = 1 to 4, one for every 8 rows, since a random walk or a smooth series would look
//     periodic otherwise. The chance is that of P times the number of frequencies. It tells
//     something only where what these p leave is noise. Of a wave without noise, but also of any
//     smooth curve (exponential, logistic, a power of t), they leave next to nothing: at most 1 %
//     of the squares that the trend and the other columns leave, and as smooth as the curve. So the
//     wave of such a series has to last as well: else the series does not count. And p = 0 where
//     they leave at most 0.3 %, since these values would hide any wave.
//
// The period then is P, or its double or triple where the two waves that this adds have a chance of
// at most kSeasonLevel, with the p of 2.
//
// A few odd values, such as a typing error or months of closed shops, make up nearly all squares of
// y and hide any wave. So where that finds nothing, the same is tried with ranks in place of y: of
// what the other columns leave of it, beside a trend that stays, since they do not add up to ranks
// of y itself. Both searches share the level: the chance that is returned is 4/3 times that of the
// first, or ten times that of the second.
//
// The formula is that of models/research/training/prior/phase_column.py, whose thresholds were
// chosen on made-up series (models/research/evaluate/seasons.md).
//
// A series that is constant, or spans more than kMostStepsPerRow steps a row, is left out. So the
// time is bounded by the product of all rows, 16 times the rows of the longest series (frequencies)
// and regressors. Pure arithmetic, with sums in the order of the rows and series: the same bits
// everywhere.
std::optional<FoundPeriod> FindPeriod(std::vector<SeriesRows> all);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_PERIOD_SEARCH_H_
