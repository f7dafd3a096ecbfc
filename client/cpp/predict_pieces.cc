#include "client/cpp/predict_pieces.h"

#include <algorithm>
#include <numeric>

#include "client/cpp/groups.h"
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

std::vector<int32_t> SizesInEffect(const v1::KnownValues& known, absl::Span<const int32_t> sizes) {
  if (known.rows().empty()) return {};
  return {sizes.begin(), sizes.end()};
}

}  // namespace

PredictPieces::PredictPieces(const DataFrame& rows, const v1::KnownValues& known,
                             absl::Span<const int32_t> group_sizes, int64_t local_rows)
    : rows_(rows),
      known_(known),
      others_(OtherRows(known, rows.row_count())),
      sizes_(SizesInEffect(known, group_sizes)),
      group_of_(GroupOfEachRow(sizes_, rows.row_count())),
      known_of_(CountGroups(sizes_)) {
  for (int i = 0; i < known.rows_size(); ++i) known_of_[group_of_[known.rows(i)]].push_back(i);
  const int64_t max_rows = MaxRows(local_rows, 0);
  const auto end_of_group = [this](int64_t row) {
    const auto end = std::upper_bound(group_of_.begin(), group_of_.end(), group_of_[row]);
    return static_cast<int64_t>(end - group_of_.begin());
  };
  for (int64_t begin = 0; begin < rows.row_count();) {
    int64_t end = begin;  // of the whole groups that fit into a request
    if (end_of_group(begin) - begin <= max_rows) {
      std::vector<int64_t> window(std::min(max_rows, rows.row_count() - begin));
      std::iota(window.begin(), window.end(), begin);
      const int64_t fitting = SplitRows(rows.Take(window), kMaxBytes, max_rows).front().end;
      while (end < rows.row_count() && end_of_group(end) - begin <= fitting) {
        end = end_of_group(end);
      }
    }
    if (end > begin) {
      pieces_.push_back(OthersIn({begin, end}));
    } else {
      end = end_of_group(begin);
      SplitGroup({begin, end}, local_rows);
    }
    begin = end;
  }
}

RowRange PredictPieces::OthersIn(const RowRange& rows) const {
  const auto begin = std::lower_bound(others_.begin(), others_.end(), rows.begin);
  const auto end = std::lower_bound(begin, others_.end(), rows.end);
  return {begin - others_.begin(), end - others_.begin()};
}

void PredictPieces::SplitGroup(const RowRange& rows, int64_t local_rows) {
  std::vector<int64_t> known_rows;
  for (const int i : known_of_[group_of_[rows.begin]]) known_rows.push_back(known_.rows(i));
  int64_t known_bytes = 0;
  if (!known_rows.empty()) {
    const v1::Table table = EncodeTable(rows_.Take(known_rows), TableUse::kLookUp);
    known_bytes = static_cast<int64_t>(table.ByteSizeLong());
  }
  const RowRange others = OthersIn(rows);
  const auto own = absl::MakeConstSpan(others_).subspan(others.begin, others.size());
  for (const RowRange& part :
       SplitRows(rows_.Take(own), Left(kMaxBytes, known_bytes),
                 MaxRows(local_rows, static_cast<int64_t>(known_rows.size())))) {
    pieces_.push_back({others.begin + part.begin, others.begin + part.end});
  }
}

RowRange PredictPieces::groups(size_t piece) const {
  const RowRange& others = pieces_[piece];
  return {group_of_[others_[others.begin]], group_of_[others_[others.end - 1]] + 1};
}

std::vector<int64_t> PredictPieces::Rows(const RowRange& range) const {
  std::vector<int64_t> rows;
  int64_t group = -1;
  for (int64_t i = range.begin; i < range.end; ++i) {
    const int64_t row = others_[i];
    if (group_of_[row] != group) {
      group = group_of_[row];
      for (const int known : known_of_[group]) rows.push_back(known_.rows(known));
    }
    rows.push_back(row);
  }
  return rows;
}

void PredictPieces::Encode(size_t piece, v1::PredictRequest* request) const {
  const std::vector<int64_t> rows = Rows(pieces_[piece]);
  *request->mutable_rows() = EncodeTable(rows_.Take(rows), TableUse::kLookUp);
  if (known_.values_size() != known_.rows_size()) {
    *request->mutable_known() = known_;  // the server rejects this number of values
    return;
  }
  v1::KnownValues known;
  google::protobuf::RepeatedField<int32_t> sizes;
  size_t begin = 0;  // of a group in the request
  for (int64_t group = groups(piece).begin; group < groups(piece).end; ++group) {
    for (size_t i = 0; i < known_of_[group].size(); ++i) {
      known.add_rows(static_cast<int32_t>(begin + i));
      known.add_values(known_.values(known_of_[group][i]));
    }
    const auto end = std::find_if(rows.begin() + static_cast<int64_t>(begin), rows.end(),
                                  [&](int64_t row) { return group_of_[row] != group; });
    sizes.Add(static_cast<int32_t>(end - rows.begin() - static_cast<int64_t>(begin)));
    begin = static_cast<size_t>(end - rows.begin());
  }
  if (known.rows().empty()) return;
  *request->mutable_known() = std::move(known);
  if (!sizes_.empty()) *request->mutable_group_sizes() = std::move(sizes);
}

}  // namespace chorale::client
