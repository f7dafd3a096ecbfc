#include "client/cli/sample_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/sample_summary.h"

namespace chorale::client {
namespace {

using nlohmann::ordered_json;

// Converts [B, T] values to an array of arrays.
template <class Value>
ordered_json Paths(const std::vector<Value>& values, int64_t row_count) {
  ordered_json paths = ordered_json::array();
  for (size_t begin = 0; begin < values.size(); begin += row_count) {
    paths.push_back(std::vector<Value>(values.begin() + begin, values.begin() + begin + row_count));
  }
  return paths;
}

// Returns the step at which each path drew each query row [B, T], from 0 in each group; empty
// without random orders.
std::vector<Cell> StepsByRow(const Samples& samples) {
  if (samples.rows_by_step.empty()) return {};
  std::vector<Cell> steps(samples.values.size());
  for (size_t i = 0; i < samples.rows_by_step.size(); ++i) {
    const int64_t path = static_cast<int64_t>(i) / samples.step_count;
    const int64_t step = static_cast<int64_t>(i) % samples.step_count;
    const std::vector<int64_t>& firsts = samples.first_steps;
    const int64_t first = *(std::upper_bound(firsts.begin(), firsts.end(), step) - 1);
    steps[path * samples.row_count + samples.rows_by_step[i]] = step - first;
  }
  return steps;
}

std::vector<Cell> SummaryCells(std::string quantity, const DrawSummary& draws, double actual) {
  return {std::move(quantity), draws.mean, draws.sd,
          draws.q05,           draws.q25,  draws.q50,
          draws.q75,           draws.q95,  std::isnan(actual) ? Cell() : Cell(actual)};
}

// The joint quantities of the actual values; NaN unless all rows have one.
struct ActualJoint {
  double sum = std::numeric_limits<double>::quiet_NaN();
  double mean = sum;
  double max = sum;
  double min = sum;
};

ActualJoint JoinActual(absl::Span<const double> actual) {
  ActualJoint joint;
  if (actual.empty() ||
      std::any_of(actual.begin(), actual.end(), [](double y) { return std::isnan(y); })) {
    return joint;
  }
  joint.sum = 0.0;
  for (const double y : actual) joint.sum += y;
  joint.mean = joint.sum / static_cast<double>(actual.size());
  joint.max = *std::max_element(actual.begin(), actual.end());
  joint.min = *std::min_element(actual.begin(), actual.end());
  return joint;
}

void WriteRows(const SampleStatistics& statistics, absl::Span<const double> actual, Format format,
               std::ostream* out) {
  ReportWriter report(
      {"quantity", "mean", "sd", "q0.05", "q0.25", "q0.5", "q0.75", "q0.95", "actual"}, format,
      out);
  for (size_t t = 0; t < statistics.rows.size(); ++t) {
    const double value = actual.empty() ? std::nan("") : actual[t];
    report.Add(SummaryCells(absl::StrCat("row ", t), statistics.rows[t], value));
  }
  const ActualJoint joint = JoinActual(actual);
  report.Add(SummaryCells("sum", statistics.sum, joint.sum));
  report.Add(SummaryCells("mean", statistics.mean, joint.mean));
  report.Add(SummaryCells("max", statistics.max, joint.max));
  report.Add(SummaryCells("min", statistics.min, joint.min));
  report.Finish();
}

// Statistics that require joint samples.
void WriteJointWords(const SampleStatistics& statistics, std::ostream* out) {
  *out << absl::StrFormat(
      "\nJoint statistics:\n  the standard deviation of the sum is %.6g; if the rows were "
      "independent, it would be %.6g\n",
      statistics.sum.sd, statistics.independent_sum_sd);
  if (statistics.mean_pairwise_correlation.has_value()) {
    *out << absl::StrFormat("  the mean correlation between two rows is %.3f\n",
                            *statistics.mean_pairwise_correlation);
  }
}

void WriteIntervalWords(const char* name, const IntervalCoverage& interval, int64_t known,
                        std::ostream* out) {
  *out << absl::StrFormat(
      "  %s: mean width %.4g; %d observed values inside (%.0f %%), expected %d to %d\n", name,
      interval.mean_width, interval.inside,
      100.0 * static_cast<double>(interval.inside) / static_cast<double>(known),
      interval.fewest_expected, interval.most_expected);
}

void WriteCoverageWords(const Coverage& coverage, std::ostream* out) {
  if (coverage.known == 0) return;
  *out << absl::StrFormat("\nComparison with %d observed values:\n", coverage.known);
  WriteIntervalWords("50 % intervals (q0.25 to q0.75)", coverage.half, coverage.known, out);
  WriteIntervalWords("90 % intervals (q0.05 to q0.95)", coverage.ninety, coverage.known, out);
  *out << absl::StrFormat("  medians: mean absolute error %.4g", coverage.mean_median_error);
  if (coverage.known > 1) {
    *out << absl::StrFormat("; the standard deviation of the observed values is %.4g",
                            coverage.known_sd);
  }
  *out << "\n  (expected: on 90 % of the paths, the number of the path's own values inside is in "
          "this range)\n";
}

ordered_json Json(const DrawSummary& draws) {
  return {{"mean", draws.mean}, {"sd", draws.sd},   {"q05", draws.q05}, {"q25", draws.q25},
          {"q50", draws.q50},   {"q75", draws.q75}, {"q95", draws.q95}};
}

ordered_json Json(const IntervalCoverage& interval) {
  return {{"inside", interval.inside},
          {"mean_width", interval.mean_width},
          {"fewest_expected", interval.fewest_expected},
          {"most_expected", interval.most_expected}};
}

ordered_json SummaryJson(const SampleStatistics& statistics, const Coverage& coverage) {
  ordered_json rows = ordered_json::array();
  for (const DrawSummary& draws : statistics.rows) rows.push_back(Json(draws));
  ordered_json object = {
      {"rows", std::move(rows)},       {"sum", Json(statistics.sum)},
      {"mean", Json(statistics.mean)}, {"max", Json(statistics.max)},
      {"min", Json(statistics.min)},   {"independent_sum_sd", statistics.independent_sum_sd}};
  if (statistics.mean_pairwise_correlation.has_value()) {
    object["mean_pairwise_correlation"] = *statistics.mean_pairwise_correlation;
  }
  if (coverage.known > 0) {
    object["coverage"] = {{"known", coverage.known},
                          {"interval_50", Json(coverage.half)},
                          {"interval_90", Json(coverage.ninety)},
                          {"mean_median_error", coverage.mean_median_error},
                          {"known_sd", coverage.known_sd}};
  }
  return object;
}

// A weight of 0 has a log-weight that JSON cannot represent, which becomes null.
void AddWeights(const v1::SampleSummary& summary, ordered_json* object) {
  const auto& sizes = summary.total_effective_sample_sizes();
  if (sizes.empty()) return;
  const auto& log_weights = summary.total_log_weights();
  if (!log_weights.empty()) {
    const std::vector<double> weights(log_weights.begin(), log_weights.end());
    (*object)["log_weights"] = Paths(weights, sizes.size());
  }
  (*object)["effective_sample_sizes"] = std::vector<double>(sizes.begin(), sizes.end());
}

}  // namespace

void WriteSamplesJson(const Samples& samples, const SampleTitle& title, std::ostream* out) {
  ordered_json object = {{"context", title.context},
                         {"target", title.target},
                         {"seed", samples.summary.seed()},
                         {"first_path", samples.first_path},
                         {"values", Paths(samples.values, samples.row_count)}};
  if (!samples.log_densities.empty()) {
    object["log_densities"] = Paths(samples.log_densities, samples.row_count);
  }
  if (!samples.rows_by_step.empty()) {
    object["rows_by_step"] = Paths(samples.rows_by_step, samples.step_count);
  }
  AddWeights(samples.summary, &object);
  const auto& known = samples.summary.known_log_densities();
  if (!title.groups.empty()) object["groups"] = title.groups;
  if (!known.empty() && title.groups.empty()) object["known_log_density"] = known[0];
  if (!known.empty() && !title.groups.empty()) {
    object["known_log_density"] = std::vector<double>(known.begin(), known.end());
  }
  *out << object.dump() << '\n';
}

void SampleWriter::Add(const Samples& samples) {
  const bool with_densities = !samples.log_densities.empty();
  const std::vector<Cell> steps = StepsByRow(samples);
  const auto& log_weights = samples.summary.total_log_weights();
  const int64_t groups = samples.path_count > 0 ? log_weights.size() / samples.path_count : 0;
  if (!report_.has_value()) {
    std::vector<std::string> columns = {"path", "row", title_.target};
    if (with_densities) columns.push_back("log_density");
    if (!steps.empty()) columns.push_back("step");
    if (!log_weights.empty()) columns.push_back("log_weight");
    report_.emplace(columns, format_, out_, header_ == Header::kInclude);
  }
  for (size_t i = 0; i < samples.values.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    std::vector<Cell> cells = {samples.first_path + index / samples.row_count,
                               index % samples.row_count, samples.values[i]};
    if (with_densities) {
      const double density = samples.log_densities[i];
      cells.push_back(std::isnan(density) ? Cell() : Cell(density));
    }
    if (!steps.empty()) cells.push_back(steps[i]);
    if (!log_weights.empty()) {
      const int64_t group =
          title_.group_of_row.empty() ? 0 : title_.group_of_row[index % samples.row_count];
      cells.emplace_back(log_weights[static_cast<int>(index / samples.row_count * groups + group)]);
    }
    report_->Add(cells);
  }
}

void SampleWriter::Finish() {
  if (report_.has_value()) report_->Finish();
}

void WriteSampleSummary(const Samples& samples, absl::Span<const double> actual,
                        Comparison comparison, const SampleTitle& title, Format format,
                        std::ostream* out) {
  const SampleStatistics statistics = Summarize(samples);
  Coverage coverage;
  if (comparison == Comparison::kInclude) coverage = CountCovered(samples, statistics, actual);
  if (format == Format::kJson) {
    ordered_json object = {{"context", title.context},
                           {"target", title.target},
                           {"seed", samples.summary.seed()},
                           {"paths", samples.path_count}};
    object.update(SummaryJson(statistics, coverage));
    *out << object.dump(1) << '\n';
    return;
  }
  if (format == Format::kTable) {
    *out << absl::StrFormat(
        "%s of %d query rows in %d joint sample paths (context %s, seed %d)\n\n", title.target,
        samples.row_count, samples.path_count, title.context, samples.summary.seed());
  }
  WriteRows(statistics, actual, format, out);
  if (format != Format::kTable) return;
  // A single path has no standard deviation.
  if (samples.row_count > 1 && samples.path_count > 1) WriteJointWords(statistics, out);
  WriteCoverageWords(coverage, out);
}

}  // namespace chorale::client
