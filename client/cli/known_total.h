// Known totals: the options --total and --resample, and the weights of paths.
#ifndef CHORALE_CLIENT_CLI_KNOWN_TOTAL_H_
#define CHORALE_CLIENT_CLI_KNOWN_TOTAL_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "chorale/v1/chorale.pb.h"
#include "client/cli/environment.h"

namespace chorale::client {

// A total between two ends, which may be infinite; known exactly if they are equal.
struct Total {
  double lower = 0;
  double upper = 0;
};

// Parses "120", "100:120", ":120" (at most) or "100:" (at least). InvalidArgument for other text.
absl::StatusOr<Total> ParseTotal(const std::string& text);

struct TotalArguments {
  std::optional<Total> total;
  bool resample = false;
};

// Adds --total and --resample.
void AddTotalOptions(CLI::App* command, TotalArguments* arguments);

// Returns the total for each group; nothing without --total.
v1::KnownTotals TotalsOf(const TotalArguments& arguments, int64_t group_count);

// Writes the effective sample size to standard error, or the smallest of the groups, and a warning
// if it is small. `groups` [G] has their labels; empty without groups.
void NoteEffectivePaths(const v1::SampleSummary& summary, int64_t path_count,
                        const std::vector<std::string>& groups, const Environment& environment);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_KNOWN_TOTAL_H_
