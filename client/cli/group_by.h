// Groups of query rows: the option --group-by, and a column of the file with the labels of groups.
#ifndef CHORALE_CLIENT_CLI_GROUP_BY_H_
#define CHORALE_CLIENT_CLI_GROUP_BY_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "chorale/v1/chorale.pb.h"
#include "client/cli/command_line.h"
#include "client/cpp/sample_assembly.h"

namespace chorale::client {

// Adds --group-by. `effect` is the second sentence of its description.
void AddGroupByOption(CLI::App* command, RowsOptions* options, const std::string& effect);

// The groups of the rows of a file. A request has the rows of the first group, then those of the
// second, and so on.
struct RowGroups {
  std::vector<std::string> labels;  // [G]: in the order of their first rows; empty without groups
  std::vector<int32_t> sizes;       // [G]; empty without groups
  std::vector<int64_t> order;       // [T]: the rows of the file, in the order of the request

  // Returns the group of each row of the file [T]; empty without groups.
  std::vector<int64_t> OfRows() const;
  // Returns these known values of rows of the file as values of rows of the request.
  v1::KnownValues InRequest(const v1::KnownValues& known) const;
  // Return samples, rows or known values of the request as those of rows of the file. Rows and
  // known values keep their order.
  Samples InFile(Samples samples) const;
  std::vector<int64_t> InFile(std::vector<int64_t> rows) const;
  v1::KnownValues InFile(v1::KnownValues known) const;
};

// Returns the groups of rows with equal cells in the column of --group-by. InvalidArgument if there
// is no such column, or if a cell is missing, or if all rows of a group are in `known`.
absl::StatusOr<RowGroups> GroupsOf(const RowsOptions& options, const Rows& rows,
                                   const v1::KnownValues& known);

// Returns the permutation that sorts `rows`.
std::vector<size_t> AscendingOrder(const std::vector<int64_t>& rows);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_GROUP_BY_H_
