#include "client/cli/group_by.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/groups.h"

namespace chorale::client {
namespace {

absl::Status Invalid(const RowsOptions& options, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(options.file, ": ", what));
}

// The rows of the file in `known` must leave a row of each group.
absl::Status CheckLeft(const RowsOptions& options, const RowGroups& groups,
                       const std::vector<size_t>& group_of, const v1::KnownValues& known) {
  std::vector<int32_t> left = groups.sizes;
  for (const int32_t row : known.rows()) {
    const size_t group = group_of[row];
    if (--left[group] > 0) continue;
    return Invalid(options, absl::StrCat("--given: all rows of the group '", groups.labels[group],
                                         "' have a value, but at least one cell must be missing"));
  }
  return absl::OkStatus();
}

// Moves [count, T] values of rows of the request to the rows of the file.
void MoveColumns(const std::vector<int64_t>& order, std::vector<double>* values) {
  std::vector<double> moved(values->size());
  const size_t width = order.size();
  for (size_t i = 0; i < values->size(); ++i) {
    moved[i - i % width + static_cast<size_t>(order[i % width])] = (*values)[i];
  }
  *values = std::move(moved);
}

}  // namespace

void AddGroupByOption(CLI::App* command, RowsOptions* options, const std::string& effect) {
  command
      ->add_option(
          "--group-by", options->group_by,
          absl::StrCat("Rows with equal cells in this column of ROWS are a group. ", effect))
      ->check([](const std::string& name) {
        return std::string(name.empty() ? "the name of the column is empty" : "");
      })
      ->type_name("COLUMN");
}

absl::StatusOr<RowGroups> GroupsOf(const RowsOptions& options, const Rows& rows,
                                   const v1::KnownValues& known) {
  RowGroups groups;
  groups.order.resize(rows.csv.row_count());
  std::iota(groups.order.begin(), groups.order.end(), 0);
  if (options.group_by.empty()) return groups;
  const int64_t column = rows.csv.Find(options.group_by);
  if (column < 0) {
    return Invalid(options,
                   absl::StrCat("--group-by: no column '", options.group_by,
                                "'; the columns are: ", absl::StrJoin(rows.csv.names(), ", ")));
  }
  const MissingMarks missing = MarksOf(options.missing);
  absl::flat_hash_map<std::string, size_t> number_of;
  std::vector<size_t> group_of;  // [T]
  for (int64_t row = 0; row < rows.csv.row_count(); ++row) {
    const std::string label(rows.csv.Cell(row, column));
    if (missing.Matches(label)) {
      return Invalid(
          options, absl::StrCat("line ", rows.csv.Line(row), ", column '", rows.csv.names()[column],
                                "': the cell is missing, so that the row has no group"));
    }
    const auto [at, is_new] = number_of.try_emplace(label, groups.labels.size());
    if (is_new) {
      groups.labels.push_back(label);
      groups.sizes.push_back(0);
    }
    ++groups.sizes[at->second];
    group_of.push_back(at->second);
  }
  std::stable_sort(groups.order.begin(), groups.order.end(),
                   [&](int64_t a, int64_t b) { return group_of[a] < group_of[b]; });
  if (absl::Status left = CheckLeft(options, groups, group_of, known); !left.ok()) return left;
  return groups;
}

v1::KnownValues RowGroups::InRequest(const v1::KnownValues& known) const {
  absl::flat_hash_map<int64_t, int> index_of;  // by row: among the known values
  for (int i = 0; i < known.rows_size(); ++i) index_of[known.rows(i)] = i;
  v1::KnownValues sent;
  for (size_t place = 0; place < order.size(); ++place) {
    const auto at = index_of.find(order[place]);
    if (at == index_of.end()) continue;
    sent.add_rows(static_cast<int32_t>(place));
    sent.add_values(known.values(at->second));
  }
  return sent;
}

std::vector<int64_t> RowGroups::OfRows() const {
  if (labels.empty()) return {};
  const std::vector<int64_t> groups = GroupOfEachRow(sizes, static_cast<int64_t>(order.size()));
  std::vector<int64_t> of_rows(order.size());
  for (size_t i = 0; i < order.size(); ++i) of_rows[order[i]] = groups[i];
  return of_rows;
}

Samples RowGroups::InFile(Samples samples) const {
  if (labels.empty()) return samples;
  MoveColumns(order, &samples.values);
  MoveColumns(order, &samples.log_densities);
  for (int32_t& row : samples.rows_by_step) {
    if (row >= 0) row = static_cast<int32_t>(order[row]);
  }
  return samples;
}

std::vector<int64_t> RowGroups::InFile(std::vector<int64_t> rows) const {
  for (int64_t& row : rows) row = order[row];
  return rows;
}

v1::KnownValues RowGroups::InFile(v1::KnownValues known) const {
  for (int32_t& row : *known.mutable_rows()) row = static_cast<int32_t>(order[row]);
  return known;
}

std::vector<size_t> AscendingOrder(const std::vector<int64_t>& rows) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rows[a] < rows[b]; });
  return order;
}

}  // namespace chorale::client
