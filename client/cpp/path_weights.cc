#include "client/cpp/path_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cpp/groups.h"

namespace chorale::client {
namespace {

// In (0, 1), the same on every machine.
double Uniform(std::mt19937_64* random) {
  constexpr int kUnusedBits = 12;
  return (static_cast<double>((*random)() >> kUnusedBits) + 0.5) * 0x1p-52;
}

// Returns the path of `samples` for each of `path_count` new paths over a group, ascending.
absl::StatusOr<std::vector<int64_t>> Choose(const Samples& samples, int64_t group,
                                            int64_t group_count, int64_t path_count,
                                            double uniform) {
  const auto log_weight = [&](int64_t path) {
    return samples.summary.total_log_weights(static_cast<int>(path * group_count + group));
  };
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t path = 0; path < samples.path_count; ++path) {
    largest = std::max(largest, log_weight(path));
  }
  if (!std::isfinite(largest)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the known total", group_count > 1 ? absl::StrCat(" of group ", group) : "",
        " is not possible on any of the ", samples.path_count, " paths: draw more paths"));
  }
  std::vector<double> sums;
  double sum = 0;
  for (int64_t path = 0; path < samples.path_count; ++path) {
    sum += std::exp(log_weight(path) - largest);
    sums.push_back(sum);
  }
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < path_count; ++i) {
    const double at = (static_cast<double>(i) + uniform) / static_cast<double>(path_count) * sum;
    const auto next = std::upper_bound(sums.begin(), sums.end(), at);
    const auto place = std::min<std::ptrdiff_t>(next - sums.begin(), std::ssize(sums) - 1);
    chosen.push_back(place);
  }
  // Rounding may leave the last place on a path without weight.
  while (log_weight(chosen.back()) == -std::numeric_limits<double>::infinity()) --chosen.back();
  return chosen;
}

// Columns [first, end) of a matrix with `columns` columns, of the chosen rows of `from`.
template <class Value>
void CopyColumns(const std::vector<Value>& from, const std::vector<int64_t>& chosen, int64_t first,
                 int64_t end, int64_t columns, std::vector<Value>* to) {
  if (from.empty()) return;
  to->resize(chosen.size() * columns);
  for (size_t i = 0; i < chosen.size(); ++i) {
    std::copy(from.begin() + chosen[i] * columns + first, from.begin() + chosen[i] * columns + end,
              to->begin() + static_cast<int64_t>(i) * columns + first);
  }
}

}  // namespace

bool HasTotals(const v1::KnownTotals& totals) {
  return totals.lower_size() > 0 || totals.upper_size() > 0;
}

absl::Status CheckPathWeights(const v1::SampleSummary& summary, const v1::KnownTotals& totals,
                              int64_t path_count, int64_t group_count) {
  if (!HasTotals(totals)) return absl::OkStatus();
  const int64_t weights = summary.total_log_weights_size();
  if (weights == 0) {
    return absl::UnimplementedError(
        "the server does not support known totals, because it is older than this client: upgrade "
        "the server");
  }
  const int64_t sizes = summary.total_effective_sample_sizes_size();
  if (weights == path_count * group_count && sizes == group_count) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the server sent ", weights, " weights and ", sizes,
                                          " effective sample sizes of ", path_count, " paths of ",
                                          group_count, " groups"));
}

absl::StatusOr<Samples> Resample(const Samples& samples, absl::Span<const int32_t> group_sizes,
                                 int64_t path_count, uint64_t seed) {
  Samples result;
  result.path_count = path_count;
  result.row_count = samples.row_count;
  result.step_count = samples.step_count;
  result.first_steps = samples.first_steps;
  result.summary = samples.summary;
  result.summary.clear_total_log_weights();
  const int64_t groups = CountGroups(group_sizes);
  std::mt19937_64 random(seed);
  int64_t first_row = 0;
  for (int64_t group = 0; group < groups; ++group) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> chosen,
                     Choose(samples, group, groups, path_count, Uniform(&random)));
    const int64_t end_row =
        group_sizes.empty() ? samples.row_count : first_row + group_sizes[group];
    CopyColumns(samples.values, chosen, first_row, end_row, samples.row_count, &result.values);
    CopyColumns(samples.log_densities, chosen, first_row, end_row, samples.row_count,
                &result.log_densities);
    const int64_t end_step =
        group + 1 < groups ? samples.first_steps[group + 1] : samples.step_count;
    CopyColumns(samples.rows_by_step, chosen, samples.first_steps[group], end_step,
                samples.step_count, &result.rows_by_step);
    first_row = end_row;
  }
  return result;
}

}  // namespace chorale::client
