// Known values of query rows: the flag --given, and the target column of the file.
#ifndef CHORALE_CLIENT_CLI_GIVEN_H_
#define CHORALE_CLIENT_CLI_GIVEN_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "chorale/v1/chorale.pb.h"
#include "client/cli/command_line.h"
#include "client/cli/environment.h"

namespace chorale::client {

// Adds --given. `effect` is the second sentence of its description.
void AddGivenFlag(CLI::App* command, bool* given, const std::string& effect);

// Returns the values in the target column of the file [T], with NaN for missing cells.
// InvalidArgument if there is no such column, or if a cell is not a number.
absl::StatusOr<std::vector<double>> TargetValues(const RowsOptions& options, const Rows& rows);

// Returns the values in the target column, for --given. Writes a note if there are none.
// InvalidArgument if there is no such column, if a cell is not a number, or if all have a value.
absl::StatusOr<v1::KnownValues> KnownValuesOf(const RowsOptions& options, const Rows& rows,
                                              const Environment& environment);

// For commands without --given: InvalidArgument if some cells of the target column, but not all,
// have a value. Ignores a column with other cells than numbers.
absl::Status CheckUnmixed(const RowsOptions& options, const Rows& rows);

// Whether some values are known, but not all. `values` [T] has NaN for the others.
bool SomeAreKnown(const std::vector<double>& values);

// Writes the log-density of the known values to standard error, if there are any: the sum of those
// of the groups, which are independent.
void NoteKnown(const v1::KnownValues& known, const std::vector<double>& log_densities,
               const Environment& environment);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_GIVEN_H_
