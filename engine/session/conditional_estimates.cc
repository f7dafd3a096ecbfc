#include "engine/session/conditional_estimates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace chorale {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;

// Quantiles of the mean of the mixtures of 256 paths usually have smaller errors than those of the
// values of tens of thousands of paths, and of 1,600 paths if rows depend strongly on each other.
// More paths are kept if there are many of them, unless they need too much memory.
constexpr int64_t kMinKeptPaths = 256;
constexpr int64_t kMinKeptShare = 8;  // of the paths: one in 8
// Mixtures, of M components with 12 bytes each.
constexpr int64_t kMaxKeptMixtures = 1 << 16;
constexpr int64_t kMinKeptOfManyRows = 16;
// The error of a quantile of values can be trusted if this number of them is beyond the quantile.
constexpr double kLeastValuesBeyond = 10;
// Components with less weight are left out of quantiles: fewer take less time.
constexpr double kLeastWeight = 1e-7;

// Numbers of G groups and B paths, which the sums over rows keep together: 8 MiB.
constexpr int64_t kMaxSums = 1 << 20;

int64_t KeptPaths(int64_t paths, int64_t rows) {
  const int64_t wanted = std::max(kMinKeptPaths, paths / kMinKeptShare);
  const int64_t possible =
      std::max(kMinKeptOfManyRows, kMaxKeptMixtures / std::max<int64_t>(rows, 1));
  return std::min({paths, wanted, possible});
}

double NormalTail(double z) { return 0.5 * std::erfc(z * kSqrtHalf); }
double NormalDensity(double z) { return kInverseSqrtTwoPi * std::exp(-0.5 * z * z); }

}  // namespace

bool ConditionalEstimates::Apply(const SummarizeRequest& request,
                                 const RegisteredContext& context) {
  const bool snapped =
      request.snapping == Snapping::kOn && !context.transform.target_support().is_whole_line();
  return request.estimator == Estimator::kConditional && !snapped;
}

ConditionalEstimates::ConditionalEstimates(std::shared_ptr<const SummarizeRequest> request,
                                           std::shared_ptr<const RegisteredContext> context)
    : request_(std::move(request)),
      context_(std::move(context)),
      groups_(*request_),
      dependence_(DependenceOf(*request_)),
      components_(context_->model->info.config.num_components),
      most_kept_(request_->quantiles.empty() ? 0 : KeptPaths(request_->paths, groups_.unknown())),
      quantiles_(request_->quantiles.begin(), request_->quantiles.end()),
      means_(groups_.unknown() * request_->paths),
      variances_(groups_.unknown() * request_->paths),
      kept_(groups_.unknown() * most_kept_ * 3 * components_) {
  for (const Functional& functional : request_->functionals) sums_.push_back(SumOf(functional));
}

void ConditionalEstimates::Begin(int64_t paths) {
  const int64_t earlier = std::exchange(paths_, paths);
  if (!quantiles_.empty()) kept_paths_ = KeptPaths(paths, groups_.unknown());
  int64_t numbers = 0;
  for (std::optional<SumOverRows>& sum : sums_) {
    if (!sum.has_value()) continue;
    numbers += groups_.count() * paths;
    if (numbers > kMaxSums) {
      sum.reset();
      continue;
    }
    sum->of_paths.resize(groups_.count() * paths);
    AddKnownValues(earlier, &*sum);
  }
}

std::optional<ConditionalEstimates::SumOverRows> ConditionalEstimates::SumOf(
    const Functional& functional) const {
  const int64_t query_rows = request_->query_rows.rows();
  std::vector<int32_t> rows = functional.rows;
  if (rows.empty()) {
    rows.resize(query_rows);
    std::iota(rows.begin(), rows.end(), 0);
  }
  std::vector<int64_t> of_groups(groups_.count());
  for (const int32_t row : rows) ++of_groups[groups_.GroupOf(row)];
  const bool one_row =
      std::all_of(of_groups.begin(), of_groups.end(), [](int64_t n) { return n == 1; });

  using Term = SumOverRows::Term;
  SumOverRows sum;
  switch (functional.type) {
    case FunctionalType::kSum:
    case FunctionalType::kMean:
      sum.term = Term::kWeighted;
      break;
    case FunctionalType::kCount:
      sum.term = Term::kBeyond;
      break;
    case FunctionalType::kExcess:
      sum.term = Term::kExcess;
      break;
    case FunctionalType::kAny:
    case FunctionalType::kAll:
      if (!one_row) return std::nullopt;
      sum.term = Term::kBeyond;
      break;
    case FunctionalType::kImprovement:
      if (!one_row) return std::nullopt;
      sum.term = Term::kExcess;
      break;
    default:
      return std::nullopt;
  }
  sum.threshold = (functional.threshold - transform().y_mean()) / transform().y_std();
  sum.below = functional.below;
  sum.weights.resize(query_rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    double weight = functional.weights.empty() ? 1.0 : functional.weights[i];
    if (functional.type == FunctionalType::kMean) weight /= of_groups[groups_.GroupOf(rows[i])];
    sum.weights[rows[i]] = weight;
  }
  return sum;
}

// Adds the known values of the paths [first_path, paths_).
void ConditionalEstimates::AddKnownValues(int64_t first_path, SumOverRows* sum) const {
  for (int64_t i = 0; i < request_->known.count(); ++i) {
    const int32_t row = request_->known.rows[i];
    if (sum->weights[row] == 0) continue;
    for (int64_t path = first_path; path < paths_; ++path) {
      double& of_path = sum->of_paths[path * groups_.count() + groups_.GroupOf(row)];
      const double value = request_->known.value(path, i);
      const double model_value = (value - transform().y_mean()) / transform().y_std();
      const double excess =
          sum->below ? sum->threshold - model_value : model_value - sum->threshold;
      switch (sum->term) {
        case SumOverRows::Term::kWeighted:
          of_path += sum->weights[row] * value;
          break;
        case SumOverRows::Term::kBeyond:
          of_path += excess > 0 ? 1 : 0;
          break;
        case SumOverRows::Term::kExcess:
          of_path += std::max(excess, 0.0) * transform().y_std();
          break;
      }
    }
  }
}

// `weights` [M] sum to 1.
double ConditionalEstimates::TermOf(const SumOverRows& sum, const MixtureSpan& mixture,
                                    const std::vector<double>& weights, double mean) const {
  if (sum.term == SumOverRows::Term::kWeighted) return transform().ToUser(mean);
  double result = 0;
  for (size_t j = 0; j < weights.size(); ++j) {
    const double std = mixture.std[j];
    // The threshold in standard deviations, on the side on which values are beyond it.
    const double z =
        (sum.below ? mixture.mean[j] - sum.threshold : sum.threshold - mixture.mean[j]) / std;
    if (sum.term == SumOverRows::Term::kBeyond) {
      result += weights[j] * NormalTail(z);
    } else {
      // E[(Z - z)^+] = density(z) - z P(Z > z)
      result += weights[j] * std * std::max(NormalDensity(z) - z * NormalTail(z), 0.0);
    }
  }
  return sum.term == SumOverRows::Term::kExcess ? result * transform().y_std() : result;
}

void ConditionalEstimates::Keep(const MixtureSpan& mixture, const std::vector<double>& weights,
                                int64_t unknown, int64_t path) {
  float* kept = kept_.data() + (unknown * most_kept_ + path) * components_ * 3;
  for (int64_t j = 0; j < components_; ++j) {
    *kept++ = static_cast<float>(mixture.mean[j]);
    *kept++ = static_cast<float>(mixture.std[j]);
    *kept++ = weights[j] < kLeastWeight ? 0.0F : static_cast<float>(weights[j]);
  }
}

void ConditionalEstimates::Take(const MixtureBatch& batch) {
  std::vector<double> weights(components_);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const MixtureSpan mixture = batch.mixtures.Row(i);
    const int32_t row = batch.rows[i];
    const int64_t path = batch.paths[i];
    const int64_t unknown = groups_.UnknownIndex(row);
    double total = 0;
    double mean = 0;
    for (int64_t j = 0; j < components_; ++j) {
      weights[j] = std::exp(mixture.log_weight[j]);
      total += weights[j];
      mean += weights[j] * mixture.mean[j];
    }
    mean /= total;
    double variance = 0;
    for (int64_t j = 0; j < components_; ++j) {
      weights[j] /= total;
      const double shift = mixture.mean[j] - mean;
      variance += weights[j] * (mixture.std[j] * mixture.std[j] + shift * shift);
    }
    means_[unknown * request_->paths + path] = mean;
    variances_[unknown * request_->paths + path] = static_cast<float>(variance);
    if (path < most_kept_) Keep(mixture, weights, unknown, path);
    for (std::optional<SumOverRows>& sum : sums_) {
      if (!sum.has_value() || sum->weights[row] == 0) continue;
      sum->of_paths[path * groups_.count() + groups_.GroupOf(row)] +=
          sum->weights[row] * TermOf(*sum, mixture, weights, mean);
    }
  }
}

void ConditionalEstimates::EstimateRow(int64_t unknown, SummarizeResult* result) const {
  const absl::Span<const double> means =
      absl::MakeConstSpan(means_).subspan(unknown * request_->paths, paths_);
  const absl::Span<const float> variances =
      absl::MakeConstSpan(variances_).subspan(unknown * request_->paths, paths_);
  const PathStatistics statistics = StatisticsOf({means.begin(), means.end()}, {}, dependence_);
  const double within = std::accumulate(variances.begin(), variances.end(), 0.0) / paths_;
  const double scale = transform().y_std();
  result->means[unknown] = transform().ToUser(statistics.mean);
  result->mean_errors[unknown] = statistics.mean_error * scale;
  result->stds[unknown] = std::sqrt(within + statistics.std * statistics.std) * scale;
}

std::vector<kernels::MixtureQuantiles::Normal> ConditionalEstimates::KeptNormals(
    int64_t unknown) const {
  const int64_t count = kept_paths_ * components_;
  std::vector<kernels::MixtureQuantiles::Normal> normals;
  normals.reserve(count);
  const float* kept = kept_.data() + unknown * most_kept_ * components_ * 3;
  for (int64_t i = 0; i < count; ++i, kept += 3) normals.push_back({kept[0], kept[1], kept[2]});
  return normals;
}

void ConditionalEstimates::EstimateQuantiles(int64_t first, int64_t end,
                                             SummarizeResult* result) const {
  const auto quantiles = static_cast<int64_t>(quantiles_.size());
  while (first < end) {
    const int64_t unknown = first / quantiles;
    const int64_t last = std::min(end, (unknown + 1) * quantiles);
    const std::vector<kernels::MixtureQuantiles::Normal> normals = KeptNormals(unknown);
    const kernels::MixtureQuantiles solver(normals);
    for (; first < last; ++first) EstimateQuantile(normals, solver, first, result);
  }
}

// The error of a quantile is that of the mean of the conditional cdfs there, divided by the
// density: to the first order, F(q + d) = F(q) + f(q) d.
void ConditionalEstimates::EstimateQuantile(
    const std::vector<kernels::MixtureQuantiles::Normal>& normals,
    const kernels::MixtureQuantiles& solver, int64_t at, SummarizeResult* result) const {
  const kernels::QuantileTarget& target = quantiles_[at % static_cast<int64_t>(quantiles_.size())];
  const double start = (result->quantiles[at] - transform().y_mean()) / transform().y_std();
  const double quantile = solver.At(target, start);
  std::vector<double> cdfs(kept_paths_);
  double density = 0;
  for (int64_t path = 0; path < kept_paths_; ++path) {
    for (int64_t j = path * components_; j < (path + 1) * components_; ++j) {
      const auto& [mean, std, weight] = normals[j];
      if (weight == 0) continue;
      const double z = (quantile - mean) / std;
      cdfs[path] += weight * NormalTail(-z);
      density += weight / std * NormalDensity(z);
    }
  }
  density /= static_cast<double>(kept_paths_);
  const double error = ErrorOfMean(cdfs, dependence_) /
                       std::max(density, std::numeric_limits<double>::min()) * transform().y_std();
  const bool values_have_error = target.mass * static_cast<double>(paths_) >= kLeastValuesBeyond;
  if (values_have_error && result->quantile_errors[at] < error) return;
  result->quantiles[at] = transform().ToUser(quantile);
  result->quantile_errors[at] = error;
}

bool ConditionalEstimates::Has(int64_t functional) const { return sums_[functional].has_value(); }

void ConditionalEstimates::EstimateFunctional(int64_t functional, int64_t group,
                                              SummarizeResult* result) const {
  std::vector<double> of_group(paths_);
  for (int64_t path = 0; path < paths_; ++path) {
    of_group[path] = sums_[functional]->of_paths[path * groups_.count() + group];
  }
  const PathStatistics statistics = StatisticsOf(std::move(of_group), {}, dependence_);
  FunctionalSummary& summary = result->functionals[functional];
  summary.means[group] = statistics.mean;
  summary.mean_errors[group] = statistics.mean_error;
}

}  // namespace chorale
