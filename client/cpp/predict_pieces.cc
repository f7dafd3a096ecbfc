#include "client/cpp/predict_pieces.h"

#include <algorithm>

#include "client/cpp/known_values.h"

namespace chorale::client {
namespace {

// Of a request.
constexpr int64_t kMaxRows = 1024;
constexpr int64_t kMaxBytes = 1 << 20;
// Of a request with known values: the server's default limit.
constexpr int64_t kMaxQueryRows = 4096;
// With local rows, each row of a request gets at least so many of them.
constexpr int64_t kLocalRowsOfEach = 32;

// What the known rows leave of the limit of a request; at least a quarter.
int64_t Left(int64_t limit, int64_t known) {
  return std::max({limit - known, limit / 4, int64_t{1}});
}

// The most rows that a request predicts, in addition to its known rows.
int64_t MaxRows(int64_t local_rows, int64_t known) {
  int64_t most = kMaxRows;
  int64_t most_in_all = kMaxQueryRows;
  if (local_rows > 0) {
    most = std::clamp<int64_t>(local_rows / kLocalRowsOfEach, 1, kMaxRows);
    most_in_all = std::min(local_rows, most_in_all);
  }
  return std::max(std::min(Left(most, known), most_in_all - known), int64_t{1});
}

}  // namespace

PredictPieces::PredictPieces(const DataFrame& rows, const v1::KnownValues& known,
                             int64_t local_rows)
    : rows_(rows),
      known_(known),
      known_rows_(known.rows().begin(), known.rows().end()),
      others_(OtherRows(known, rows.row_count())) {
  const v1::Table known_table = EncodeTable(rows.Take(known_rows_), TableUse::kLookUp);
  const auto known_bytes =
      known_rows_.empty() ? int64_t{0} : static_cast<int64_t>(known_table.ByteSizeLong());
  pieces_ = SplitRows(rows.Take(others_), Left(kMaxBytes, known_bytes),
                      MaxRows(local_rows, known.rows_size()));
}

void PredictPieces::Encode(size_t piece, v1::PredictRequest* request) const {
  std::vector<int64_t> rows = known_rows_;
  rows.insert(rows.end(), others_.begin() + pieces_[piece].begin,
              others_.begin() + pieces_[piece].end);
  *request->mutable_rows() = EncodeTable(rows_.Take(rows), TableUse::kLookUp);
  if (known_.ByteSizeLong() == 0) return;
  *request->mutable_known() = known_;
  for (int i = 0; i < known_.rows_size(); ++i) request->mutable_known()->set_rows(i, i);
}

}  // namespace chorale::client
