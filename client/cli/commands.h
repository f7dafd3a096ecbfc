// The program's commands. Each function adds subcommands to the command line; parsing it runs the
// chosen subcommand and sets Environment::result.
#ifndef CHORALE_CLIENT_CLI_COMMANDS_H_
#define CHORALE_CLIENT_CLI_COMMANDS_H_

#include "client/cli/environment.h"

namespace CLI {
class App;
}

namespace chorale::client {

// `app` and `environment` must outlive the parsing of the command line.
void AddRegisterCommand(CLI::App* app, Environment* environment);
void AddAppendCommand(CLI::App* app, Environment* environment);
void AddContextCommands(CLI::App* app, Environment* environment);  // ls, show, rm, warm
void AddPredictCommand(CLI::App* app, Environment* environment);
void AddSampleCommand(CLI::App* app, Environment* environment);
void AddSummarizeCommand(CLI::App* app, Environment* environment);
void AddLogDensityCommand(CLI::App* app, Environment* environment);
void AddInfoCommand(CLI::App* app, Environment* environment);
void AddModelsCommand(CLI::App* app, Environment* environment);
void AddBenchCommand(CLI::App* app, Environment* environment);
void AddTokenCommand(CLI::App* app, Environment* environment);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_COMMANDS_H_
