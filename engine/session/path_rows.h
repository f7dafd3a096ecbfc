// The query rows of a request at the positions of its paths.
#ifndef CHORALE_ENGINE_SESSION_PATH_ROWS_H_
#define CHORALE_ENGINE_SESSION_PATH_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// The rows whose values are known come first, then the others. Immutable.
class PathRows {
 public:
  // `known` contains distinct rows of [0, query_rows).
  PathRows(const std::vector<int32_t>& known, int64_t query_rows);

  int64_t known() const { return known_; }                                         // N
  int64_t unknown() const { return static_cast<int64_t>(rows_.size()) - known_; }  // U
  // The rows whose values are not known, in ascending order.
  absl::Span<const int32_t> unknown_rows() const {
    return absl::MakeConstSpan(rows_).subspan(known_);
  }
  // The index of a row in unknown_rows(). REQUIRES: its value is not known.
  int64_t UnknownIndex(int32_t row) const { return unknown_index_[row]; }

  // TileSpec::order of `paths` paths, [paths, T], with the unknown rows in ascending order. Empty
  // if that is the order of the query rows.
  std::vector<int32_t> GivenOrder(int64_t paths) const;
  // TileSpec::order of paths [first_path, first_path + paths), [paths, T]: the unknown rows of each
  // path are in an order of its own (kernels::DrawOrder).
  std::vector<int32_t> RandomOrders(uint64_t seed, int64_t first_path, int64_t paths) const;
  // TileSpec::order of the paths of the predictions of unknown rows [first, first + paths), each by
  // itself, [paths, N + 1]: the known rows, then the predicted row.
  std::vector<int32_t> PredictionOrders(int64_t first, int64_t paths) const;

 private:
  int64_t known_ = 0;
  std::vector<int32_t> rows_;           // [T]: the known rows, then the others
  std::vector<int64_t> unknown_index_;  // [T]; -1 for known rows
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_PATH_ROWS_H_
