// Estimates of the statistics of paths from the mixtures of which their values are drawn.
#ifndef CHORALE_ENGINE_SESSION_CONDITIONAL_ESTIMATES_H_
#define CHORALE_ENGINE_SESSION_CONDITIONAL_ESTIMATES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "engine/api/request.h"
#include "engine/context/registered_context.h"
#include "engine/session/mixture_results.h"
#include "engine/session/path_statistics.h"
#include "engine/session/query_groups.h"
#include "kernels/ops/mixture_quantiles.h"

namespace chorale {

// The mixtures of some values, each conditional on the context and on the earlier values of its
// path.
struct MixtureBatch {
  RawMixtures mixtures;        // [n, M]
  std::vector<int32_t> rows;   // [n]: the query row of each value
  std::vector<int32_t> paths;  // [n]: its path

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
};

// By the law of total expectation, E[f(Y)] is the mean over the paths of E[f(Y) | earlier values],
// which varies less from path to path than f(Y) (the Rao-Blackwell theorem), and which the mixture
// determines. So the mean, the standard deviation and the quantiles of a row are those of the mean
// of its mixtures, and functionals that are sums over rows have the mean of the sum of conditional
// expectations.
//
// Quantiles need the mixtures themselves, of which those of the first paths are kept. If these are
// so few that a quantile of the values of all paths has a smaller error, that one remains.
//
// Thread contract: Take may be called by several threads at the same time with different paths, and
// the methods that estimate with different numbers of the result.
class ConditionalEstimates {
 public:
  // Whether the values of the request are drawn from the mixtures as they are, without snapping,
  // and the request allows conditional estimates.
  static bool Apply(const SummarizeRequest& request, const RegisteredContext& context);

  // REQUIRES: Apply.
  ConditionalEstimates(std::shared_ptr<const SummarizeRequest> request,
                       std::shared_ptr<const RegisteredContext> context);

  // From now on, the first `paths` paths are taken. REQUIRES: this is the first call, or all
  // mixtures of the paths of the last one were taken, which are no more than `paths`; `paths` is at
  // most the number of the request.
  void Begin(int64_t paths);

  // REQUIRES: the values of a path are taken in the order in which they were drawn.
  void Take(const MixtureBatch& batch);

  // --- Once all mixtures were taken -----------------------------------------------------------
  // Replace the mean, its error and the standard deviation of a row.
  void EstimateRow(int64_t unknown, SummarizeResult* result) const;
  // Replaces the quantiles [first, end) of the result, which are near those of the values, and
  // their errors.
  void EstimateQuantiles(int64_t first, int64_t end, SummarizeResult* result) const;
  // The numbers of components that the estimate of one quantile reads.
  int64_t quantile_cost() const { return kept_paths_ * components_; }
  // Whether the functional is a sum over rows.
  bool Has(int64_t functional) const;
  // Replaces the mean of a group and its error. REQUIRES: Has(functional).
  void EstimateFunctional(int64_t functional, int64_t group, SummarizeResult* result) const;

 private:
  // A functional whose expectation is a sum over rows.
  struct SumOverRows {
    enum class Term {
      kWeighted,  // the value, times the weight of its row
      kBeyond,    // 1 if the value is beyond the threshold
      kExcess,    // the distance from the threshold, if it is beyond it
    };
    Term term = Term::kWeighted;
    double threshold = 0;  // in the model's units
    bool below = false;
    std::vector<double> weights;   // [T]: 0 for other rows
    std::vector<double> of_paths;  // [n, G], in the user's units
  };

  const FeatureTransform& transform() const { return context_->transform; }
  std::optional<SumOverRows> SumOf(const Functional& functional) const;
  void AddKnownValues(int64_t first_path, SumOverRows* sum) const;
  double TermOf(const SumOverRows& sum, const MixtureSpan& mixture,
                const std::vector<double>& weights, double mean) const;
  void Keep(const MixtureSpan& mixture, const std::vector<double>& weights, int64_t unknown,
            int64_t path);
  void EstimateQuantile(const std::vector<kernels::MixtureQuantiles::Normal>& normals,
                        const kernels::MixtureQuantiles& solver, int64_t at,
                        SummarizeResult* result) const;
  // The components of all kept mixtures of a row, [P, M].
  std::vector<kernels::MixtureQuantiles::Normal> KeptNormals(int64_t unknown) const;

  const std::shared_ptr<const SummarizeRequest> request_;
  const std::shared_ptr<const RegisteredContext> context_;
  const QueryGroups groups_;
  const PathDependence dependence_;
  const int64_t components_;  // M
  const int64_t most_kept_;   // P for the paths of the request
  int64_t paths_ = 0;         // n <= B
  int64_t kept_paths_ = 0;    // P
  std::vector<kernels::QuantileTarget> quantiles_;
  std::vector<double> means_;                     // [U, B], in the model's units
  std::vector<float> variances_;                  // [U, B], in the model's units
  std::vector<float> kept_;                       // [U, most_kept_, M, 3]: mean, std, weight
  std::vector<std::optional<SumOverRows>> sums_;  // [F]
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_CONDITIONAL_ESTIMATES_H_
