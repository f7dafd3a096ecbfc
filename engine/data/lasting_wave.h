// Whether a wave is one: with the same phase from the beginning of a series to its end.
#ifndef CHORALE_ENGINE_DATA_LASTING_WAVE_H_
#define CHORALE_ENGINE_DATA_LASTING_WAVE_H_

#include "absl/types/span.h"
#include "engine/data/period_search.h"

namespace chorale {

// The probability that waves of this period are so much alike in all blocks of a series although
// each block has a phase and an amplitude of its own, as cycles that keep no time have, and
// whatever else changes slowly. Each series is divided into at most 6 blocks of at least a period.
// With y beside a level of each block, a trend and the other columns, S_0 are the squares left, S_1
// those left beside waves, and S_2 those left beside waves of each block; the ratio is
// (S_1 - S_2) / (S_0 - S_2), of several series the mean, weighted by the freedom of S_1 - S_2. (Of
// one series and one harmonic it is the T2_circ statistic of Victor and Mast,
// Electroencephalography and Clinical Neurophysiology 78, 1991.)
//
// REQUIRES: t of each series begins at 0, and y is z-scored.
double ChanceOfLastingWave(absl::Span<const SeriesRows> series, double period);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_LASTING_WAVE_H_
