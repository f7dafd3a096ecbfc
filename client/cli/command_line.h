// What several commands share: options, and a function that adds a command to the command line.
#ifndef CHORALE_CLIENT_CLI_COMMAND_LINE_H_
#define CHORALE_CLIENT_CLI_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/environment.h"
#include "client/cli/rows_file.h"

namespace chorale::client {

// Of a command that takes none.
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

// Adds a list option: "a,b", or the option several times; it does not take the words that follow.
template <class Value>
CLI::Option* AddList(CLI::App* command, const std::string& name, std::vector<Value>* values,
                     const std::string& description) {
  return command->add_option(name, *values, description)->delimiter(',')->allow_extra_args(false);
}

// A context and a file of target rows.
struct RowsOptions {
  std::string context;
  std::string file;
  std::vector<std::string> missing;  // replaces the default tokens if not empty
};

void AddRowsOptions(CLI::App* command, RowsOptions* options);
void AddMissingOption(CLI::App* command, std::vector<std::string>* tokens);
// The tokens, or the defaults of TypeOptions if there are none.
MissingTokens MissingOrDefault(const std::vector<std::string>& tokens);

// The file, the context, and the file's rows with the context's columns.
struct Rows {
  CsvTable csv;
  v1::Context context;
  DataFrame features;
};

// Reads the file, gets the context and converts the rows to the context's columns. Notes on
// standard error which columns of the file are not used; for kUsed the target column is not among
// them.
enum class TargetColumn { kUnused, kUsed };
absl::StatusOr<Rows> LoadRows(const RowsOptions& options, TargetColumn target,
                              Environment* environment);

// The id in a resource name: "contexts/houses" -> "houses".
std::string IdOf(const std::string& name);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_COMMAND_LINE_H_
