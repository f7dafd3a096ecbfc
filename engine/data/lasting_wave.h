// Tests whether a wave persists, with the same phase from the beginning of a series to its end.
#ifndef CHORALE_ENGINE_DATA_LASTING_WAVE_H_
#define CHORALE_ENGINE_DATA_LASTING_WAVE_H_

#include "absl/types/span.h"
#include "engine/data/period_search.h"

namespace chorale {

// Returns the probability that waves of this period agree so closely across all blocks of a series
// by chance, although each block has its own phase and amplitude, as in cycles without a fixed
// period or in other slow changes. Each series is divided into at most 6 blocks of at least one
// period. Let S_0 be the residual sum of squares of y after a level for each block, a trend and the
// other columns; S_1 the same with common waves; S_2 the same with separate waves for each block.
// The ratio is (S_1 - S_2) / (S_0 - S_2); for several series the mean of their ratios, weighted by
// the degrees of freedom of S_1 - S_2. (For one series and one harmonic it is the T2_circ statistic
// of Victor and Mast, Electroencephalography and Clinical Neurophysiology 78, 1991.)
//
// REQUIRES: t of each series starts at 0, and y is z-scored.
double ChanceOfLastingWave(absl::Span<const SeriesRows> series, double period);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_LASTING_WAVE_H_
