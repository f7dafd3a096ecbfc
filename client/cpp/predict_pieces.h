// Splits the query rows of a call into requests of Predict.
#ifndef CHORALE_CLIENT_CPP_PREDICT_PIECES_H_
#define CHORALE_CLIENT_CPP_PREDICT_PIECES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "chorale/v1/chorale.pb.h"
#include "client/cpp/data_frame.h"
#include "client/cpp/table_codec.h"

namespace chorale::client {

// A piece has whole groups. If a group is too large, each of several pieces has all its rows with
// known values, and some of its other rows. The server predicts these regardless of each other, so
// that the split does not affect results. Without known values, groups have no effect, and all rows
// count as one group. Thread-compatible.
class PredictPieces {
 public:
  // `known` must have valid rows of `rows` (known_values.h), in each group fewer than `local_rows`
  // unless that is 0. `group_sizes` must be valid for `rows` (groups.h). `rows` and `known` must
  // outlive the pieces.
  PredictPieces(const DataFrame& rows, const v1::KnownValues& known,
                absl::Span<const int32_t> group_sizes, int64_t local_rows);

  size_t count() const { return pieces_.size(); }
  // The range of a piece among the rows whose values are not known.
  const RowRange& range(size_t piece) const { return pieces_[piece]; }
  // The range of the groups of a piece.
  RowRange groups(size_t piece) const;
  // The rows of a request that predicts a range of the rows whose values are not known: of each
  // group, first the known rows, in their order.
  std::vector<int64_t> Rows(const RowRange& range) const;
  // Sets the rows, the known values and, if there are any of these, the groups of a request.
  void Encode(size_t piece, v1::PredictRequest* request) const;

 private:
  // The range among the rows whose values are not known of those in `rows`.
  RowRange OthersIn(const RowRange& rows) const;
  // Adds pieces with the known rows of a group and some of its other rows.
  void SplitGroup(const RowRange& rows, int64_t local_rows);

  const DataFrame& rows_;
  const v1::KnownValues& known_;
  const std::vector<int64_t> others_;       // [U]
  const std::vector<int32_t> sizes_;        // [G]; empty without known values or groups
  const std::vector<int64_t> group_of_;     // [T]
  std::vector<std::vector<int>> known_of_;  // [G]: indexes of known values of each group
  std::vector<RowRange> pieces_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_PREDICT_PIECES_H_
