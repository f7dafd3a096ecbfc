// Options that several commands have, and how a command is hung into the command line.
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

// Adds a subcommand that runs `run(options, environment)`. `Options` are its values, filled by the
// command line; the caller adds the options to the App that this returns.
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

// A list of names or numbers: "a,b", or the option several times; never the words that follow.
template <class Value>
CLI::Option* AddList(CLI::App* command, const std::string& name, std::vector<Value>* values,
                     const std::string& description) {
  return command->add_option(name, *values, description)->delimiter(',')->allow_extra_args(false);
}

// A context and the rows to ask it about.
struct RowsOptions {
  std::string context;
  std::string file;
  std::vector<std::string> missing;  // replaces the default tokens when given
};

void AddRowsOptions(CLI::App* command, RowsOptions* options);
void AddMissingOption(CLI::App* command, std::vector<std::string>* tokens);
// The tokens given, or else the defaults of TypeOptions.
MissingTokens MissingOrDefault(const std::vector<std::string>& tokens);

// The file, the context, and the file's rows fitted to it.
struct Rows {
  CsvTable csv;
  v1::Context context;
  DataFrame features;
};

// Reads the file, gets the context and fits one to the other. Notes which columns are left aside,
// but for the target column where `target` says that the command has a use for it.
enum class TargetColumn { kUnused, kUsed };
absl::StatusOr<Rows> LoadRows(const RowsOptions& options, TargetColumn target,
                              Environment* environment);

// The id in a resource name: "contexts/houses" -> "houses".
std::string IdOf(const std::string& name);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_COMMAND_LINE_H_
