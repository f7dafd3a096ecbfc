#include "engine/session/path_summary.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/session/path_statistics.h"

namespace chorale {
namespace {

// The values that a part reads, unless a single row, group or row of a matrix needs more.
constexpr int64_t kPartValues = 1 << 16;
// The components of mixtures that a part reads for quantiles, each a few times.
constexpr int64_t kPartComponents = 1 << 15;
// The products that a part computes for covariances.
constexpr int64_t kPartProducts = 1 << 21;

// Calls add(first, end) for parts of [0, count) with sizes of at most `most` together, or of a
// single element.
template <typename Size, typename Add>
void Divide(int64_t count, int64_t most, const Size& size_of, const Add& add) {
  int64_t first = 0;
  int64_t size = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t own = size_of(i);
    if (i > first && size + own > most) {
      add(first, i);
      first = i;
      size = 0;
    }
    size += own;
  }
  if (first < count) add(first, count);
}

}  // namespace

PathSummary::PathSummary(std::shared_ptr<const SummarizeRequest> request,
                         std::shared_ptr<const ConditionalEstimates> estimates)
    : request_(std::move(request)),
      estimates_(std::move(estimates)),
      dependence_(DependenceOf(*request_)),
      groups_(*request_) {
  const int64_t query_rows = request_->query_rows.rows();
  values_.resize(query_rows * request_->paths);
  std::vector<bool> known(query_rows);
  for (int64_t i = 0; i < request_->known.count(); ++i) {
    const int32_t row = request_->known.rows[i];
    known[row] = true;
    for (int64_t path = 0; path < request_->paths; ++path) {
      values_[row * request_->paths + path] = request_->known.value(path, i);
    }
  }
  for (int64_t row = 0; row < query_rows; ++row) {
    if (!known[row]) unknown_rows_.push_back(static_cast<int32_t>(row));
  }
}

void PathSummary::Begin(int64_t paths) {
  paths_ = paths;
  result_ = {};
  result_.path_count = paths;
  of_functionals_.clear();
  stages_.clear();
  const int64_t quantiles = static_cast<int64_t>(request_->quantiles.size());
  for (std::vector<double>* of_rows : {&result_.means, &result_.mean_errors, &result_.stds}) {
    of_rows->resize(groups_.unknown());
  }
  result_.quantiles.resize(groups_.unknown() * quantiles);
  result_.quantile_errors.resize(groups_.unknown() * quantiles);
  AddStage();
  AddRowParts();
  for (size_t f = 0; f < request_->functionals.size(); ++f) AddFunctionalParts(f);
  AddPart([this] { CopyPaths(); });
  if (request_->want_covariances) {
    AddStage();  // uses the means and standard deviations of rows
    AddCovarianceParts();
  }
  if (estimates_ != nullptr) {
    AddStage();  // replaces results of the stages before it
    AddConditionalParts();
  }
}

void PathSummary::Take(const SampleBlock& block) {
  const int64_t known = groups_.known(0);
  for (int64_t p = 0; p < block.paths; ++p) {
    const int64_t path = block.path_indices.empty() ? block.first_path + p : block.path_indices[p];
    for (int64_t step = 0; step < block.steps; ++step) {
      const int64_t i = p * block.steps + step;
      const int32_t row = block.query_rows.empty()
                              ? groups_.rows(0)[known + block.first_step + step]
                              : block.query_rows[i];
      values_[row * request_->paths + path] = block.values[i];
    }
  }
}

void PathSummary::AddRowParts() {
  Divide(
      groups_.unknown(), kPartValues, [this](int64_t) { return paths_; },
      [this](int64_t first, int64_t end) {
        AddPart([this, first, end] {
          for (int64_t unknown = first; unknown < end; ++unknown) SummarizeRow(unknown);
        });
      });
}

void PathSummary::SummarizeRow(int64_t unknown) {
  const double* values = ValuesOf(unknown_rows_[unknown]);
  const PathStatistics statistics =
      StatisticsOf(std::vector<double>(values, values + paths_), request_->quantiles, dependence_);
  result_.means[unknown] = statistics.mean;
  result_.mean_errors[unknown] = statistics.mean_error;
  result_.stds[unknown] = statistics.std;
  const int64_t at = unknown * static_cast<int64_t>(request_->quantiles.size());
  std::copy(statistics.quantiles.begin(), statistics.quantiles.end(),
            result_.quantiles.begin() + at);
  std::copy(statistics.quantile_errors.begin(), statistics.quantile_errors.end(),
            result_.quantile_errors.begin() + at);
}

std::vector<PathSummary::RowsOfGroup> PathSummary::DivideRows(const Functional& functional) const {
  std::vector<int32_t> rows = functional.rows;
  if (rows.empty()) {
    rows.resize(request_->query_rows.rows());
    std::iota(rows.begin(), rows.end(), 0);
  }
  std::vector<RowsOfGroup> of_groups(groups_.count());
  for (size_t i = 0; i < rows.size(); ++i) {
    RowsOfGroup& of_group = of_groups[groups_.GroupOf(rows[i])];
    of_group.rows.push_back(rows[i]);
    of_group.indexes.push_back(static_cast<int64_t>(i));
    if (!functional.weights.empty()) of_group.weights.push_back(functional.weights[i]);
  }
  return of_groups;
}

void PathSummary::AddFunctionalParts(size_t functional) {
  const Functional& spec = request_->functionals[functional];
  of_functionals_.push_back(DivideRows(spec));
  const std::vector<RowsOfGroup>& of_groups = of_functionals_.back();
  const auto row_count = [&](int64_t g) { return static_cast<int64_t>(of_groups[g].rows.size()); };
  int64_t rows = 0;
  for (int64_t g = 0; g < groups_.count(); ++g) rows += row_count(g);
  const bool of_each_row = IsOfEachRow(spec.type);
  const int64_t results = of_each_row ? rows : groups_.count();
  FunctionalSummary& summary = result_.functionals.emplace_back();
  for (std::vector<double>* array : {&summary.means, &summary.mean_errors, &summary.stds}) {
    array->resize(results);
  }
  if (!of_each_row) {
    const size_t quantiles = results * request_->quantiles.size();
    summary.quantiles.resize(quantiles);
    summary.quantile_errors.resize(quantiles);
  }
  Divide(
      groups_.count(), kPartValues, [&](int64_t g) { return row_count(g) * paths_; },
      [this, functional](int64_t first, int64_t end) {
        AddPart([this, functional, first, end] {
          for (int64_t g = first; g < end; ++g) SummarizeFunctional(functional, g);
        });
      });
}

void PathSummary::SummarizeFunctional(size_t functional, int64_t group) {
  const Functional& spec = request_->functionals[functional];
  const RowsOfGroup& of_group = of_functionals_[functional][group];
  const size_t rows = of_group.rows.size();
  const bool of_each_row = IsOfEachRow(spec.type);
  const size_t numbers = of_each_row ? rows : 1;
  std::vector<std::vector<double>> of_paths(numbers, std::vector<double>(paths_));
  std::vector<double> values(rows);
  std::vector<double> out(numbers);
  for (int64_t path = 0; path < paths_; ++path) {
    for (size_t i = 0; i < rows; ++i) values[i] = ValuesOf(of_group.rows[i])[path];
    Evaluate(spec, values, of_group.weights, absl::MakeSpan(out));
    for (size_t i = 0; i < numbers; ++i) of_paths[i][path] = out[i];
  }
  FunctionalSummary& summary = result_.functionals[functional];
  for (size_t i = 0; i < numbers; ++i) {
    const int64_t at = of_each_row ? of_group.indexes[i] : group;
    const PathStatistics statistics =
        StatisticsOf(std::move(of_paths[i]),
                     of_each_row ? absl::Span<const double>() : request_->quantiles, dependence_);
    const bool settled = IsEvent(spec.type) && (statistics.mean == 0 || statistics.mean == 1);
    const bool certain = IsOfEachRow(spec.type) && rows == 1;  // the only row is the largest
    summary.means[at] = statistics.mean;
    summary.mean_errors[at] =
        settled && !certain ? ErrorOfSettledEvent(paths_) : statistics.mean_error;
    summary.stds[at] = statistics.std;
    const int64_t first = at * static_cast<int64_t>(statistics.quantiles.size());
    std::copy(statistics.quantiles.begin(), statistics.quantiles.end(),
              summary.quantiles.begin() + first);
    std::copy(statistics.quantile_errors.begin(), statistics.quantile_errors.end(),
              summary.quantile_errors.begin() + first);
  }
}

void PathSummary::AddCovarianceParts() {
  int64_t offset = 0;
  for (int64_t g = 0; g < groups_.count(); ++g) {
    const int64_t unknown = groups_.positions(g) - groups_.known(g);
    Divide(
        unknown, kPartProducts, [&](int64_t row) { return (row + 1) * paths_; },
        [this, g, offset](int64_t first, int64_t end) {
          AddPart([this, g, offset, first, end] {
            for (int64_t row = first; row < end; ++row) ComputeCovariances(g, row, offset);
          });
        });
    offset += unknown * unknown;
  }
  result_.covariances.resize(offset);
}

// Computes the covariances of a row of a group with the rows up to it.
void PathSummary::ComputeCovariances(int64_t group, int64_t row, int64_t offset) {
  const absl::Span<const int32_t> rows = groups_.rows(group).subspan(groups_.known(group));
  const auto unknown = static_cast<int64_t>(rows.size());
  const auto mean = [this](int32_t r) { return result_.means[groups_.UnknownIndex(r)]; };
  const auto std = [this](int32_t r) { return result_.stds[groups_.UnknownIndex(r)]; };
  const double* a = ValuesOf(rows[row]);
  for (int64_t other = 0; other <= row; ++other) {
    const double* b = ValuesOf(rows[other]);
    // Of multiples of the standard deviations, which neither overflow nor underflow.
    const double scale_a = 1 / std::max(std(rows[row]), std::numeric_limits<double>::min());
    const double scale_b = 1 / std::max(std(rows[other]), std::numeric_limits<double>::min());
    double sum = 0;
    for (int64_t path = 0; path < paths_; ++path) {
      sum += ((a[path] - mean(rows[row])) * scale_a) * ((b[path] - mean(rows[other])) * scale_b);
    }
    const double covariance =
        sum / static_cast<double>(paths_ - 1) * std(rows[row]) * std(rows[other]);
    result_.covariances[offset + row * unknown + other] = covariance;
    result_.covariances[offset + other * unknown + row] = covariance;
  }
}

void PathSummary::AddConditionalParts() {
  result_.conditional = true;
  Divide(
      groups_.unknown(), kPartValues, [this](int64_t) { return paths_; },
      [this](int64_t first, int64_t end) {
        AddPart([this, first, end] {
          for (int64_t row = first; row < end; ++row) estimates_->EstimateRow(row, &result_);
        });
      });
  const auto quantiles = static_cast<int64_t>(request_->quantiles.size());
  Divide(
      groups_.unknown() * quantiles, kPartComponents,
      [this](int64_t) { return estimates_->quantile_cost(); },
      [this](int64_t first, int64_t end) {
        AddPart([this, first, end] { estimates_->EstimateQuantiles(first, end, &result_); });
      });
  for (size_t f = 0; f < request_->functionals.size(); ++f) {
    if (!estimates_->Has(static_cast<int64_t>(f))) continue;
    result_.functionals[f].conditional = true;
    Divide(
        groups_.count(), kPartValues, [this](int64_t) { return paths_; },
        [this, f](int64_t first, int64_t end) {
          AddPart([this, f, first, end] {
            for (int64_t group = first; group < end; ++group) {
              estimates_->EstimateFunctional(static_cast<int64_t>(f), group, &result_);
            }
          });
        });
  }
}

void PathSummary::CopyPaths() {
  const int64_t returned = std::min(request_->returned_paths, paths_);
  result_.paths.reserve(returned * groups_.unknown());
  for (int64_t path = 0; path < returned; ++path) {
    for (const int32_t row : unknown_rows_) result_.paths.push_back(ValuesOf(row)[path]);
  }
}

}  // namespace chorale
