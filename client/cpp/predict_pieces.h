// Splits the query rows of a call into requests of Predict.
#ifndef CHORALE_CLIENT_CPP_PREDICT_PIECES_H_
#define CHORALE_CLIENT_CPP_PREDICT_PIECES_H_

#include <cstdint>
#include <vector>

#include "chorale/v1/chorale.pb.h"
#include "client/cpp/data_frame.h"
#include "client/cpp/table_codec.h"

namespace chorale::client {

// Each piece has the rows with known values, and some of the other rows. The server predicts these
// regardless of each other, so that the split does not affect results. Thread-compatible.
class PredictPieces {
 public:
  // `known` must have valid rows of `rows` (known_values.h), fewer than `local_rows` unless that is
  // 0. Both must outlive the pieces.
  PredictPieces(const DataFrame& rows, const v1::KnownValues& known, int64_t local_rows);

  size_t count() const { return pieces_.size(); }
  // The range of a piece among the rows whose values are not known.
  const RowRange& range(size_t piece) const { return pieces_[piece]; }
  // Sets the rows and the known values of a request: first the known rows, in their order.
  void Encode(size_t piece, v1::PredictRequest* request) const;

 private:
  const DataFrame& rows_;
  const v1::KnownValues& known_;
  const std::vector<int64_t> known_rows_;  // [N]
  const std::vector<int64_t> others_;      // [U]
  std::vector<RowRange> pieces_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_PREDICT_PIECES_H_
