// The cells of a K/V head, and how many of its centres each of them draws
// (kernels/ops/spread_in_cells.h).
#ifndef CHORALE_ENGINE_BACKEND_HOST_DIVIDE_CENTRES_H_
#define CHORALE_ENGINE_BACKEND_HOST_DIVIDE_CENTRES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// Divides `count` centres among cells with so many keys. Each cell gets one; the others are divided
// in proportion to `potential` by largest remainders, but no cell gets more centres than it has
// keys:
//
// 1. A cell is open while it can get more. With r centres left for the open cells, the share of a
//    cell is r * its potential / the sum of the potentials of all open cells, added in the order of
//    the cells; if this sum is 0, now and from then on, potentials are the numbers of keys.
// 2. Cells whose share is more than they can get are filled, and no longer open. Repeat from 1
//    until there is none.
// 3. The others get the whole part of their share, and then, those with the largest remainders
//    first, of equal remainders the first cell, one more each, until no centre is left.
//
// REQUIRES: every cell has a key; potentials are not negative, and their sum is finite; `count` is
// at least the number of cells, and at most that of keys.
std::vector<int32_t> DivideCentres(std::vector<double> potential, absl::Span<const int32_t> keys,
                                   int64_t count);

// The cells, and the centres of each, in the order of the cells.
struct CentreCells {
  std::vector<int32_t> member;        // [n] keys of all cells, one cell after the other, ascending
  std::vector<int32_t> key_begin;     // [C + 1], into `member`
  std::vector<int32_t> centre_begin;  // [C + 1]: cell c draws the centres from centre_begin[c] on

  int64_t cells() const { return static_cast<int64_t>(key_begin.size()) - 1; }
  int64_t keys(int64_t cell) const { return key_begin[cell + 1] - key_begin[cell]; }
  int64_t centres(int64_t cell) const { return centre_begin[cell + 1] - centre_begin[cell]; }
};

// The keys that joined each of C coarse centres. The potential of a cell is the sum of w d^2 over
// its keys in their order, d being the distance to the coarse centre. `nearest`, `distance`
// (squared; negative of a centre) and `weight` are the results of kernels::SpreadKeys, [n].
CentreCells DivideIntoCells(absl::Span<const int32_t> nearest, absl::Span<const float> distance,
                            absl::Span<const double> weight, int64_t cells, int64_t centres);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_HOST_DIVIDE_CENTRES_H_
