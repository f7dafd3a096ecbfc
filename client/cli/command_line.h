// Shared by several commands: options, and a function that adds a command to the command line.
#ifndef CHORALE_CLIENT_CLI_COMMAND_LINE_H_
#define CHORALE_CLIENT_CLI_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/environment.h"
#include "client/cli/rows_file.h"
#include "client/cli/warning_hint.h"
#include "client/cpp/missing_marks.h"

namespace chorale::client {

// The arguments of a command without arguments.
struct NoArguments {};

// Adds a subcommand that calls `run(options, environment)`. The caller adds the options to the
// returned App; parsing the command line fills `options`.
template <class Options>
CLI::App* AddCommand(CLI::App* app, Environment* environment, const std::string& name,
                     const std::string& description, std::shared_ptr<Options> options,
                     absl::Status (*run)(const Options&, Environment*)) {
  CLI::App* command = app->add_subcommand(name, description);
  command->callback([options = std::move(options), environment, run] {
    environment->result = run(*options, environment);
  });
  return command;
}

// Adds an option with a single argument that may be repeated. `values` receives the arguments; each
// is a line of CSV, which ColumnsOf and MarksOf parse.
CLI::Option* AddList(CLI::App* command, const std::string& name, std::vector<std::string>* values,
                     const std::string& description);

// Returns the distinct columns that a list option names, as spelt in the table. A value that is the
// name of a column names that column, even if it contains commas; otherwise it is a line of CSV
// with names. InvalidArgument, with the option, for names that the table does not have.
absl::StatusOr<std::vector<std::string>> ColumnsOf(const std::string& option,
                                                   const std::vector<std::string>& values,
                                                   const CsvTable& csv);

// A context and a file of rows with its features.
struct RowsOptions {
  std::string context;
  std::string file;
  std::vector<std::string> missing;  // as in AddMissingOption
  std::string group_by = {};         // as in AddGroupByOption (group_by.h)
};

// Adds NAME, ROWS with this description, and --missing.
void AddRowsOptions(CLI::App* command, RowsOptions* options, const std::string& rows);
void AddQueryRowsOptions(CLI::App* command, RowsOptions* options);
void AddMissingOption(CLI::App* command, std::vector<std::string>* values);
// The marks of missing cells, which consist of the defaults and the values of the option.
MissingMarks MarksOf(const std::vector<std::string>& values);

// Adds "--seed".
CLI::Option* AddSeedOption(CLI::App* command, std::optional<uint64_t>* seed,
                           const std::string& description);

// Validates an option with an integer: decimal digits, from `least` to `most`. For
// Option::transform, because it removes leading zeros, which CLI11 would read as octal.
inline constexpr uint64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
CLI::Validator IntegerBetween(uint64_t least, uint64_t most);

// Validates an option in seconds: a number from `least` to `most`, and not NaN.
CLI::Validator SecondsBetween(double least, double most);

// Adds --local-rows.
void AddLocalRowsOption(CLI::App* command, int64_t* local_rows);

// Adds --no-snap, for commands that write draws or quantiles.
void AddNoSnapFlag(CLI::App* command, bool* no_snap);
// Adds --sampling, "independent" or "sobol".
void AddSamplingOption(CLI::App* command, std::string* sampling);

// The file, the context, and the file's rows with the context's columns.
struct Rows {
  CsvTable csv;
  v1::Context context;
  DataFrame features;
};

// Reads the file, gets the context and converts the rows to the context's columns. Writes warnings
// about ignored columns of the file and about cells that are read as missing. With kUsed, the
// target column does not count as ignored; with kUnused, CheckUnmixed (given.h) applies to it. The
// column of --group-by does not count as ignored.
enum class TargetColumn { kUnused, kUsed };
absl::StatusOr<Rows> LoadRows(const RowsOptions& options, TargetColumn target,
                              Environment* environment);

// Returns an error of a call about the rows. If the server rejected a cell or a known value, the
// message begins with its line in `file`. `known` has the known values of all rows, in the order of
// the request. `numbers` has the rows of the rejected request; empty: all rows.
absl::Status WithLine(const absl::Status& error, const std::string& file, const Rows& rows,
                      const v1::KnownValues& known = {}, absl::Span<const int64_t> numbers = {});

// Returns the source to expect: the context to whose columns the rows were converted.
v1::Source SourceOf(const v1::Context& context);

// The beginning of a warning's line: "note: ", "warning: ", or empty for a server that sends no
// severities.
absl::string_view PrefixOf(v1::Warning::Severity severity);

// Writes the server's warnings to standard error, with hints, unless quiet.
template <class Warnings>
void NoteWarnings(const Warnings& warnings, const Environment& environment) {
  for (const v1::Warning& warning : warnings) {
    const std::string hint = HintFor(warning);
    environment.Note(absl::StrCat(PrefixOf(warning.severity()), warning.message(),
                                  hint.empty() ? "" : "; ", hint));
  }
}

double SecondsOf(const google::protobuf::Duration& duration);

// The cost of work for people: "12345 bytes of device memory, about 1.5 s".
std::string EstimateText(const v1::Estimate& estimate);

// The id in a resource name: "contexts/houses" -> "houses".
std::string IdOf(const std::string& name);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_COMMAND_LINE_H_
