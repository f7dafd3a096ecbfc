#include "client/cli/predicted_rows.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/cpp/known_values.h"

namespace chorale::client {
namespace {

using RowSet = absl::flat_hash_set<int64_t>;

// Adds the rows of a group that the request has. Returns their number, 0 if none is predicted.
int64_t AddGroup(absl::Span<const int64_t> rows, int64_t first_row, const RowSet& known,
                 std::vector<int64_t>* order) {
  const auto is_predicted = [&](int64_t row) { return row >= first_row && !known.contains(row); };
  if (std::none_of(rows.begin(), rows.end(), is_predicted)) return 0;
  const size_t before = order->size();
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(*order),
               [&](int64_t row) { return row >= first_row || known.contains(row); });
  return static_cast<int64_t>(order->size() - before);
}

}  // namespace

absl::StatusOr<PredictedRows> RowsFrom(int64_t first_row, const RowGroups& all,
                                       const v1::KnownValues& known, const std::string& file) {
  const auto row_count = static_cast<int64_t>(all.order.size());
  if (first_row >= row_count) {
    return absl::InvalidArgumentError(absl::StrCat("--first-row: ", first_row,
                                                   " exceeds the last row of '", file,
                                                   "', which is ", row_count - 1));
  }
  PredictedRows rows;
  if (known.rows().empty()) {
    rows.groups.order.resize(row_count - first_row);
    std::iota(rows.groups.order.begin(), rows.groups.order.end(), first_row);
    rows.others = rows.groups.order;
    return rows;
  }
  const RowSet known_rows(known.rows().begin(), known.rows().end());
  const auto in_order = absl::MakeConstSpan(all.order);
  if (all.sizes.empty()) AddGroup(in_order, first_row, known_rows, &rows.groups.order);
  int64_t begin = 0;
  for (size_t group = 0; group < all.sizes.size(); ++group) {
    const auto of_group = in_order.subspan(begin, all.sizes[group]);
    begin += all.sizes[group];
    const int64_t size = AddGroup(of_group, first_row, known_rows, &rows.groups.order);
    if (size == 0) continue;
    rows.groups.labels.push_back(all.labels[group]);
    rows.groups.sizes.push_back(static_cast<int32_t>(size));
  }
  if (rows.groups.order.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--first-row: all rows of '", file, "' from ", first_row, " on have a value"));
  }
  rows.known = rows.groups.InRequest(known);
  rows.others =
      rows.groups.InFile(OtherRows(rows.known, static_cast<int64_t>(rows.groups.order.size())));
  return rows;
}

int64_t PredictedBefore(int64_t first_row, const v1::KnownValues& known) {
  const RowSet known_rows(known.rows().begin(), known.rows().end());
  int64_t before = first_row - 1;
  while (before >= 0 && known_rows.contains(before)) --before;
  return before;
}

}  // namespace chorale::client
