// Prints contexts.
#ifndef CHORALE_CLIENT_CLI_CONTEXT_REPORT_H_
#define CHORALE_CLIENT_CLI_CONTEXT_REPORT_H_

#include <ostream>
#include <vector>

#include "absl/status/status.h"
#include "chorale/v1/chorale.pb.h"
#include "client/cli/environment.h"

namespace chorale::client {

// Prints one line per context.
absl::Status WriteContexts(const std::vector<v1::Context>& contexts, Environment* environment);

// Prints one context with all its columns.
absl::Status WriteContext(const v1::Context& context, Environment* environment);

// Prints the types and properties of a context's features as a table for people.
void WriteFeatures(const v1::Context& context, std::ostream* out);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_CONTEXT_REPORT_H_
