// Finds the common period of one or several series.
#ifndef CHORALE_ENGINE_DATA_PERIOD_SEARCH_H_
#define CHORALE_ENGINE_DATA_PERIOD_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace chorale {

// The maximum number of regressors of a series. A series with more is not searched.
inline constexpr int64_t kMostRegressors = 96;
// The significance level: the highest probability of a reported period in a target without a
// season.
inline constexpr double kSeasonLevel = 1e-3;

// The rows of a series.
struct SeriesRows {
  std::vector<double> t;                    // [n], ascending by about 1 or by several steps
  std::vector<double> y;                    // [n]
  std::vector<std::vector<double>> others;  // columns [n] that may explain y without a season
};

// Whether the trend includes the square of t.
inline bool HasCurvedTrend(const SeriesRows& series) { return series.y.size() >= 64; }

struct FoundPeriod {
  double period = 0;  // in the unit of t
  double chance = 1;  // probability of such a fit without a period (p-value)
};

// Returns the most likely period of y in t; nullopt if it cannot be determined. Only the period is
// common to the series; all other parameters are fitted per series. With y z-scored and u the
// standardised t, the rows of a series after the first p are fitted twice by least squares, with
// the residual sums of squares R_0 and R_1:
//
//   y_i = a + b u_i + c u_i^2 + sum_k d_k y_{i-k} + others_i e                              R_0
//   the same + sum_{h=1,2} f_h sin(2 pi h t_i / P) + g_h cos(2 pi h t_i / P)                R_1
//
// The term u^2 is used from 64 rows on. y_{i-k} is the k-th row before, regardless of its distance
// in t. The ratio r is R_1 / R_0; for G series it is the mean of their ratios, weighted by the
// remaining degrees of freedom of each, with the sum n. By chance alone, r is at most this small
// with the probability ChanceOfWaves(r, n, G) (engine/data/wave_fit.h). P has the smallest r on a
// grid of frequencies from 3 steps to 1/2.5 of the longest span, refined twice. P is then replaced
// by an integer number of steps, by half of P, or by half an odd number of steps, if these fit
// equally well. Half of P fits equally well if the probability of the omitted wave, times the
// number of frequencies, is more than 1/10. There are two ways to find P:
//
//  1. A persistent wave. Three probabilities are at most kSeasonLevel: the probability of P with p
//     = 1, times the number of distinguishable frequencies; the probability of P with p = 2; and,
//     times the same number, the probability that waves which change from block to block agree as
//     closely (ChanceOfLastingWave). The result has the largest of the three. Two preceding values
//     explain as much as any sine, so more of them would hide a wave. The third condition excludes
//     cycles without a fixed period.
//  2. Otherwise p is 1 to 4, one for every 8 rows: with fewer preceding values, a random walk or a
//     smooth series would appear periodic. The result has the probability of P times the number of
//     frequencies. It is valid only if the residual after these p values is noise. For a wave
//     without noise, but also for any smooth curve (exponential, logistic, a power of t), the
//     residual is at most 1 % of the squares that the trend and the other columns leave, and as
//     smooth as the curve. So the wave of such a series has to be persistent as well; otherwise the
//     series is omitted. p is 0 if the residual is at most 0.3 %, because the preceding values
//     would hide any wave.
//
// The period is P, or its double or triple if the two additional waves have a probability of at
// most kSeasonLevel, with p as in case 2.
//
// A few outliers, such as a typing error or months of closed shops, may make up nearly all squares
// of y and hide any wave. If the search finds no period, it is repeated on ranks instead of y. The
// ranks are those of the residual of y after the other columns, because the effects of these
// columns do not add up to ranks of y itself; the trend remains a regressor. Both searches share
// the level: the returned probability is 4/3 times that of the first search, or ten times that of
// the second.
//
// Uses the formula and the thresholds of models/research/training/prior/phase_column.py. The
// thresholds were chosen on synthetic series (models/research/evaluate/seasons.md).
//
// A series that is constant, or spans more than kMostStepsPerRow steps per row, is omitted. So the
// time is bounded by the product of the rows of all series, 16 times the rows of the longest series
// (frequencies), and the regressors. All sums are in the order of the rows and series, so that the
// result has the same bits on every machine.
std::optional<FoundPeriod> FindPeriod(std::vector<SeriesRows> all);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_PERIOD_SEARCH_H_
