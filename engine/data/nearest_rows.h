// The rows of a table that are nearest to query rows.
#ifndef CHORALE_ENGINE_DATA_NEAREST_ROWS_H_
#define CHORALE_ENGINE_DATA_NEAREST_ROWS_H_

#include <cstdint>
#include <vector>

#include "engine/data/feature_transform.h"

namespace chorale {

// Returns the indices of `count` rows of `table`, in ascending order: for each of the T query rows,
// the floor(count / T) nearest rows, by the Euclidean distance of their features; of equally near
// rows, those with the smaller index. A row that is near to several query rows counts once. The
// remaining rows are chosen at random, by `seed` alone, so they represent the whole table.
//
// Distances are summed in float32, in the order of the features. REQUIRES: T <= count <= rows of
// the table, and equal numbers of features.
std::vector<int32_t> NearestRows(const FeatureMatrix& table, const FeatureMatrix& query_rows,
                                 int64_t count, uint64_t seed);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_NEAREST_ROWS_H_
