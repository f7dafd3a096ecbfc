#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "engine/session/path_statistics.h"
#include "engine/session/query_groups.h"
#include "engine/session/request_checks.h"
#include "engine/session/request_validation.h"
#include "engine/session/target_errors.h"
#include "kernels/ops/step_draw.h"

namespace chorale {
namespace {

constexpr int64_t kMaxFunctionals = 64;
// Magnitudes with which sums over all rows do not overflow. Values of a target are below 1e269.
constexpr double kMaxWeight = 1e30;
constexpr double kMaxThreshold = 1e300;
// Two of each replicate, from whose differences the errors are estimated.
constexpr int64_t kMinSobolPaths = int64_t{2} * kernels::kSobolReplicates;
// B * T, which are kept in host memory until the end: 8 MiB.
constexpr int64_t kMaxValues = 1 << 20;

// Checks that a functional that has not all rows has one of each group.
absl::Status ValidateGroups(absl::string_view field, const std::vector<int32_t>& rows,
                            const QueryGroups& groups) {
  if (rows.empty()) return absl::OkStatus();
  std::vector<bool> has(groups.count());
  for (const int32_t row : rows) has[groups.GroupOf(row)] = true;
  for (int64_t group = 0; group < groups.count(); ++group) {
    if (has[group]) continue;
    return InvalidField(field, absl::StrCat("has no row of group ", group));
  }
  return absl::OkStatus();
}

absl::Status ValidateWeights(absl::string_view field, const Functional& functional, int64_t rows) {
  const auto weights = static_cast<int64_t>(functional.weights.size());
  if (weights == 0) return absl::OkStatus();
  if (functional.type != FunctionalType::kSum && functional.type != FunctionalType::kSumBeyond) {
    return InvalidField(field, "is only allowed with TYPE_SUM and TYPE_SUM_BEYOND");
  }
  if (weights != rows) {
    return InvalidField(field, absl::StrCat("has ", weights, " entries; must have ", rows,
                                            " (the number of rows of the functional)"));
  }
  for (int64_t i = 0; i < weights; ++i) {
    if (!(std::abs(functional.weights[i]) <= kMaxWeight)) {
      return InvalidField(absl::StrCat(field, "[", i, "]"),
                          absl::StrCat("is ", functional.weights[i], "; must be between -",
                                       kMaxWeight, " and ", kMaxWeight));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateFunctional(const std::string& field, const Functional& functional,
                                int64_t query_rows, const QueryGroups& groups) {
  const std::string rows_field = absl::StrCat(field, ".rows");
  RETURN_IF_ERROR(ValidateRows(rows_field, functional.rows, query_rows));
  RETURN_IF_ERROR(ValidateGroups(rows_field, functional.rows, groups));
  const int64_t rows =
      functional.rows.empty() ? query_rows : static_cast<int64_t>(functional.rows.size());
  RETURN_IF_ERROR(ValidateWeights(absl::StrCat(field, ".weights"), functional, rows));
  if (!(std::abs(functional.threshold) <= kMaxThreshold)) {
    return InvalidField(absl::StrCat(field, ".threshold"),
                        absl::StrCat("is ", functional.threshold, "; must be between -",
                                     kMaxThreshold, " and ", kMaxThreshold));
  }
  return absl::OkStatus();
}

// The numbers of the statistics of a functional.
int64_t NumbersOf(const Functional& functional, const SummarizeRequest& request, int64_t groups) {
  if (!IsOfEachRow(functional.type)) {
    return groups * (3 + 2 * static_cast<int64_t>(request.quantiles.size()));
  }
  return 3 * (functional.rows.empty() ? request.query_rows.rows()
                                      : static_cast<int64_t>(functional.rows.size()));
}

absl::Status ValidateSummaryResponse(const SummarizeRequest& request, const QueryGroups& groups,
                                     const Limits& limits) {
  const auto quantiles = static_cast<int64_t>(request.quantiles.size());
  int64_t of_functionals = 0;
  for (const Functional& functional : request.functionals) {
    of_functionals += NumbersOf(functional, request, groups.count());
  }
  int64_t covariances = 0;
  for (int64_t group = 0; group < groups.count(); ++group) {
    const int64_t unknown = groups.positions(group) - groups.known(group);
    covariances += unknown * unknown;
  }
  return ValidateResponse({{"rows", 3 * groups.unknown()},
                           {"known.values", request.known.sets() * groups.count()},
                           {"quantiles", 2 * quantiles * groups.unknown()},
                           {"functionals", of_functionals},
                           {"include_covariances", request.want_covariances ? covariances : 0},
                           {"returned_path_count", request.returned_paths * groups.unknown()}},
                          limits);
}

}  // namespace

absl::Status ValidateRequest(const SummarizeRequest& request, const ModelConfig& config,
                             const Limits& limits, const Backend& backend) {
  RETURN_IF_ERROR(
      ValidateRequest(static_cast<const SampleRequest&>(request), config, limits, backend));
  RETURN_IF_ERROR(InRange("path_count", request.paths, 2, limits.max_paths));
  if (request.sampling == Sampling::kSobol && request.paths < kMinSobolPaths) {
    return InvalidField("path_count", absl::StrCat("is ", request.paths, "; must be at least ",
                                                   kMinSobolPaths, " with SAMPLING_SOBOL"));
  }
  RETURN_IF_ERROR(
      AtMost("path_count", "values", request.paths, request.query_rows.rows(), 1, kMaxValues));
  RETURN_IF_ERROR(ValidateQuantiles(request.quantiles, limits));
  RETURN_IF_ERROR(ValidateTargetErrors(request));
  RETURN_IF_ERROR(InRange("returned_path_count", request.returned_paths, 0, request.paths));
  const auto functionals = static_cast<int64_t>(request.functionals.size());
  RETURN_IF_ERROR(
      LimitUnless(functionals <= kMaxFunctionals, "functionals",
                  absl::StrCat("has ", functionals, " entries; the limit is ", kMaxFunctionals)));
  const QueryGroups groups(request);
  for (int64_t i = 0; i < functionals; ++i) {
    RETURN_IF_ERROR(ValidateFunctional(absl::StrCat("functionals[", i, "]"), request.functionals[i],
                                       request.query_rows.rows(), groups));
  }
  return ValidateSummaryResponse(request, groups, limits);
}

}  // namespace chorale
