// Centres that are spread out over the keys of a K/V head, by k-means++ within cells. It takes
// fewer distances than SpreadKeys (spread_keys.h) does over all keys: a key is only compared with
// the centres of its own cell.
//
// SpreadKeys draws C coarse centres. Cell c consists of the keys that joined coarse centre c, in
// ascending order. The M centres of the head are divided among the cells
// (engine/backend/host/divide_centres.h), each of which then draws its own:
//
// - Group 0 is the coarse centre. Groups 1, 2, 3, 4, 5, ... have 1, 2, 4, 8, 8, ... centres: as
//   many as the cell has already, and at most kCentresAtOnce. The last group may have fewer.
// - Centres are drawn without replacement. Each key j of the cell that is no centre has the
//   priority
//
//     w_j max(d_j^2, 1e-30) / -log(1 - u_j),   u_j uniform in (0, 1)
//
//   and the largest priorities are drawn, of equal priorities the first key. w_j is its weight, d_j
//   its Euclidean distance to the nearest centre of the earlier groups of the cell.
// - u_j = (r + 1/2) 2^-32 for word r = g mod 4 of the Philox block (kernels/ops/random.h) of
//
//     path = stream * 2^32 + floor(g / 4),   step = j,   RandomStream::kCellCentre
//
//   where g is the index of the group and j that of the key among all keys of the head.
// - A key joins the nearest centre of its cell, of equally near centres the first; a centre joins
//   itself. A square of a distance that is greater than FLT_MAX, or NaN, counts as FLT_MAX.
//
// What a cell draws depends on its keys and on the number of its centres alone, so the cells may be
// computed in any order, and at the same time.
#ifndef CHORALE_KERNELS_OPS_SPREAD_IN_CELLS_H_
#define CHORALE_KERNELS_OPS_SPREAD_IN_CELLS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

// One call draws centres [first_centre, end_centre) of one cell. A sequence of calls draws all
// `centre_count` centres of the cell; the arrays of the state carry over from call to call.
struct SpreadInCellParams {
  // Of the head.
  const float* keys = nullptr;     // packed keys, see panel_layout.h
  const double* weight = nullptr;  // [n], relative to the largest, as SpreadKeys writes it
  int64_t n = 0;
  int64_t head_dim = 0;  // Dh

  // Of the cell.
  const int32_t* member = nullptr;  // [cell_keys], its keys, ascending
  int64_t cell_keys = 0;
  int32_t coarse_centre = 0;  // one of its keys
  int64_t centre_count = 0;   // at most cell_keys
  int64_t first_index = 0;    // of its first centre among the centres of the head
  int64_t first_centre = 0;   // a multiple of kCentresAtOnce
  int64_t end_centre = 0;     // a multiple of kCentresAtOnce, or centre_count

  // The state: written by the call with first_centre = 0, updated by later calls. P =
  // RoundUp(cell_keys, kPanel). Only `nearest_place` is an output of the last call.
  float* cell_panels = nullptr;      // [P / kPanel][Dh][kPanel], the packed keys of the cell
  double* cell_weight = nullptr;     // [P]
  float* distance = nullptr;         // [P], squared, at most FLT_MAX; -1 of a centre
  int32_t* nearest_place = nullptr;  // [P], index of a centre in the cell

  // Written by the call with end_centre = centre_count.
  int32_t* nearest = nullptr;  // [n], of the cell's keys: index of a centre of the head

  uint64_t seed = 0;
  uint32_t stream = 0;
};

absl::Status ValidateSpreadInCell(const SpreadInCellParams& params);

// Calls for different cells may run at the same time. REQUIRES: ValidateSpreadInCell(params).ok().
void SpreadInCell(const SpreadInCellParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_SPREAD_IN_CELLS_H_
