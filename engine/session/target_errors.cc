#include "engine/session/target_errors.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "engine/session/path_statistics.h"
#include "engine/session/request_checks.h"

namespace chorale {
namespace {

// With fewer paths, errors are too inaccurate. Checkpoints are multiples of the Sobol replicates.
constexpr int64_t kFirstCheckpoint = 256;

// `prefix` is the part of the names of the fields before "target_".
absl::Status ValidateTargets(const std::string& prefix, const TargetErrors& targets,
                             bool has_quantiles, absl::string_view no_quantiles) {
  const auto check = [&](absl::string_view field, double target) -> absl::Status {
    if (target >= 0 && std::isfinite(target)) return absl::OkStatus();
    return InvalidField(absl::StrCat(prefix, field),
                        absl::StrCat("is ", target, "; must be finite and not negative"));
  };
  RETURN_IF_ERROR(check("target_mean_error", targets.mean));
  RETURN_IF_ERROR(check("target_quantile_error", targets.quantile));
  if (targets.quantile == 0 || has_quantiles) return absl::OkStatus();
  return InvalidField(absl::StrCat(prefix, "target_quantile_error"), no_quantiles);
}

bool HasTargets(const SummarizeRequest& request) {
  return request.target_errors.any() ||
         std::any_of(request.functionals.begin(), request.functionals.end(),
                     [](const Functional& functional) { return functional.target_errors.any(); });
}

bool AtMost(const std::vector<double>& errors, double target) {
  if (target == 0) return true;
  return std::all_of(errors.begin(), errors.end(),
                     [target](double error) { return error <= target; });
}

bool Meets(const TargetErrors& targets, const std::vector<double>& mean_errors,
           const std::vector<double>& quantile_errors) {
  return AtMost(mean_errors, targets.mean) && AtMost(quantile_errors, targets.quantile);
}

}  // namespace

absl::Status ValidateTargetErrors(const SummarizeRequest& request) {
  const bool has_quantiles = !request.quantiles.empty();
  RETURN_IF_ERROR(
      ValidateTargets("", request.target_errors, has_quantiles, "requires `quantiles`"));
  for (size_t i = 0; i < request.functionals.size(); ++i) {
    const Functional& functional = request.functionals[i];
    const bool of_each_row = IsOfEachRow(functional.type);
    RETURN_IF_ERROR(ValidateTargets(absl::StrCat("functionals[", i, "]."), functional.target_errors,
                                    has_quantiles && !of_each_row,
                                    of_each_row ? "is not allowed for a type without quantiles"
                                                : "requires `quantiles` of the request"));
  }
  return absl::OkStatus();
}

std::vector<int64_t> Checkpoints(const SummarizeRequest& request) {
  std::vector<int64_t> checkpoints;
  if (HasTargets(request)) {
    for (int64_t power = kFirstCheckpoint; power < request.paths; power *= 2) {
      checkpoints.push_back(power);
      if (power / 2 * 3 < request.paths) checkpoints.push_back(power / 2 * 3);
    }
  }
  checkpoints.push_back(request.paths);
  return checkpoints;
}

bool MeetsTargetErrors(const SummarizeRequest& request, const SummarizeResult& result) {
  if (!Meets(request.target_errors, result.mean_errors, result.quantile_errors)) return false;
  for (size_t i = 0; i < request.functionals.size(); ++i) {
    const FunctionalSummary& summary = result.functionals[i];
    if (!Meets(request.functionals[i].target_errors, summary.mean_errors,
               summary.quantile_errors)) {
      return false;
    }
  }
  return true;
}

}  // namespace chorale
