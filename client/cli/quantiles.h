// The option --quantiles, and the columns of quantiles.
#ifndef CHORALE_CLIENT_CLI_QUANTILES_H_
#define CHORALE_CLIENT_CLI_QUANTILES_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace chorale::client {

// Adds --quantiles. CheckQuantiles checks what the parser does not.
CLI::Option* AddQuantilesOption(CLI::App* command, std::vector<double>* quantiles);

// InvalidArgument if a probability is repeated.
absl::Status CheckQuantiles(std::vector<double> quantiles);

// Returns the name of a column: "q" and the shortest decimal that parses to this probability, so
// that names are distinct.
std::string QuantileName(double p);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_QUANTILES_H_
