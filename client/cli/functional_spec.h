// Functionals on the command line, such as "any:above=300:rows=0-6".
#ifndef CHORALE_CLIENT_CLI_FUNCTIONAL_SPEC_H_
#define CHORALE_CLIENT_CLI_FUNCTIONAL_SPEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "chorale/v1/chorale.pb.h"

namespace chorale::client {

// Parses the name of a functional, followed by options:
//   - ":above=T" or ":below=T", which functionals with a threshold require;
//   - ":rows=LIST": numbers of rows from 0, and ranges such as 0-6, separated by commas;
//   - ":weights=W,...", for sums;
//   - ":mean_error=E" and ":quantile_error=E": target errors, more than 0.
// InvalidArgument, with the text, if it is malformed, if a row is repeated, or if it is not
// below `row_count`.
absl::StatusOr<v1::Functional> ParseFunctional(const std::string& spec, int64_t row_count);

// Whether the functional has a number for each of its rows instead of a single number.
bool HasNumberOfEachRow(v1::Functional::Type type);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_FUNCTIONAL_SPEC_H_
