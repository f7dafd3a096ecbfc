#include "client/cli/known_total.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace chorale::client {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// With fewer effective paths, intervals of 90 % are noticeably too narrow.
constexpr double kFewPaths = 100;

// Parses an end of a total; `none` if the text is empty.
bool ParseEnd(absl::string_view text, double none, double* end) {
  *end = none;
  return text.empty() || (absl::SimpleAtod(text, end) && std::isfinite(*end));
}

}  // namespace

absl::StatusOr<Total> ParseTotal(const std::string& text) {
  const std::vector<absl::string_view> ends = absl::StrSplit(text, ':');
  Total total;
  const bool valid = text.empty() || text == ":" || ends.size() > 2
                         ? false
                         : ParseEnd(ends.front(), -kInfinite, &total.lower) &&
                               ParseEnd(ends.back(), kInfinite, &total.upper);
  if (!valid) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "' is not a total: 120, 100:120, :120 (at most) or 100: (at "
                     "least)"));
  }
  if (total.lower > total.upper) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "': the lower end must come first"));
  }
  return total;
}

void AddTotalOptions(CLI::App* command, TotalArguments* arguments) {
  CLI::Option* const total =
      command
          ->add_option_function<std::string>(
              "--total",
              [arguments](const std::string& text) {
                const absl::StatusOr<Total> total = ParseTotal(text);
                if (!total.ok()) {
                  throw CLI::ValidationError("--total", std::string(total.status().message()));
                }
                arguments->total = *total;
              },
              "The sum of the values of all rows is known, or with --group-by that of each group: "
              "exactly (120), in an interval (100:120), or at one end (:120, 100:). The paths get "
              "weights, with which they have the distribution given the total")
          ->type_name("TOTAL");
  command
      ->add_flag("--resample", arguments->resample,
                 "Write paths of equal weight, drawn from the weighted paths")
      ->needs(total)
      ->excludes("--first-path");
}

v1::KnownTotals TotalsOf(const TotalArguments& arguments, int64_t group_count) {
  v1::KnownTotals totals;
  if (!arguments.total.has_value()) return totals;
  for (int64_t group = 0; group < group_count; ++group) {
    totals.add_lower(arguments.total->lower);
    totals.add_upper(arguments.total->upper);
  }
  return totals;
}

void NoteEffectivePaths(const v1::SampleSummary& summary, int64_t path_count,
                        const std::vector<std::string>& groups, const Environment& environment) {
  const auto& sizes = summary.total_effective_sample_sizes();
  if (sizes.empty()) return;
  const auto smallest = std::min_element(sizes.begin(), sizes.end());
  const std::string of_group =
      groups.empty() ? "" : absl::StrCat(" in group '", groups[smallest - sizes.begin()], "'");
  environment.Note(
      absl::StrFormat("effective sample size %.4g of %d paths%s", *smallest, path_count, of_group));
  if (*smallest >= kFewPaths) return;
  environment.Note(absl::StrFormat(
      "warning: fewer than %g effective paths: intervals are too narrow; draw more paths",
      kFewPaths));
}

}  // namespace chorale::client
