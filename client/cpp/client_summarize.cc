// The call Summarize of Client.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cpp/client.h"
#include "client/cpp/connection.h"
#include "client/cpp/groups.h"
#include "client/cpp/known_values.h"
#include "client/cpp/request_fields.h"

namespace chorale::client {
namespace {

v1::SummarizeRequest ToProto(const std::string& id, const DataFrame& rows,
                             const SummarizeOptions& options) {
  v1::SummarizeRequest request;
  SetPathFields(id, rows, options, &request);
  request.mutable_quantiles()->Add(options.quantiles.begin(), options.quantiles.end());
  request.mutable_functionals()->Add(options.functionals.begin(), options.functionals.end());
  if (options.estimator == Estimator::kValues) {
    request.set_estimator(v1::SummarizeRequest::ESTIMATOR_VALUES);
  }
  request.set_include_covariances(options.covariances == SummarizeOptions::Covariances::kInclude);
  request.set_returned_path_count(options.returned_paths);
  request.set_target_mean_error(options.target_mean_error);
  request.set_target_quantile_error(options.target_quantile_error);
  return request;
}

bool IsOfEachRow(v1::Functional::Type type) {
  return type == v1::Functional::TYPE_ARGMAX || type == v1::Functional::TYPE_ARGMIN ||
         type == v1::Functional::TYPE_RANK;
}

// Checks the numbers of the statistics of a row or of a functional, `count` of each kind.
template <class Statistics>
absl::Status CheckStatistics(const Statistics& statistics, int64_t count, int64_t quantiles) {
  RETURN_IF_ERROR(CheckSize("means", statistics.means_size(), count));
  RETURN_IF_ERROR(CheckSize("errors of means", statistics.mean_errors_size(), count));
  RETURN_IF_ERROR(CheckSize("standard deviations", statistics.stds_size(), count));
  RETURN_IF_ERROR(CheckSize("quantiles", statistics.quantiles_size(), count * quantiles));
  return CheckSize("errors of quantiles", statistics.quantile_errors_size(), count * quantiles);
}

// The number of covariances between the rows of each group that are not known.
int64_t CountCovariances(const SummarizeOptions& options, int64_t row_count) {
  const std::vector<int64_t> group_of = GroupOfEachRow(options.group_sizes, row_count);
  std::vector<int64_t> rows(CountGroups(options.group_sizes), 0);
  for (const int64_t row : OtherRows(options.known, row_count)) ++rows[group_of[row]];
  int64_t count = 0;
  for (const int64_t own : rows) count += own * own;
  return count;
}

absl::Status CheckResponse(const v1::SummarizeResponse& response, const SummarizeOptions& options,
                           int64_t row_count) {
  const int64_t groups = CountGroups(options.group_sizes);
  const int64_t paths = response.path_count();
  RETURN_IF_ERROR(CheckSize("paths", paths, std::clamp<int64_t>(paths, 1, options.path_count)));
  RETURN_IF_ERROR(
      CheckKnownLogDensities(response.known_log_densities(), options.known, paths, groups));
  const int64_t rows = row_count - options.known.rows_size();
  const auto quantiles = static_cast<int64_t>(options.quantiles.size());
  RETURN_IF_ERROR(CheckStatistics(response, rows, quantiles));
  const auto functionals = static_cast<int64_t>(options.functionals.size());
  RETURN_IF_ERROR(CheckSize("functionals", response.functionals_size(), functionals));
  for (int f = 0; f < response.functionals_size(); ++f) {
    const v1::Functional& functional = options.functionals[f];
    const int64_t own_rows = functional.rows().empty() ? row_count : functional.rows_size();
    RETURN_IF_ERROR(IsOfEachRow(functional.type())
                        ? CheckStatistics(response.functionals(f), own_rows, 0)
                        : CheckStatistics(response.functionals(f), groups, quantiles));
  }
  const bool covariances = options.covariances == SummarizeOptions::Covariances::kInclude;
  RETURN_IF_ERROR(CheckSize("covariances", response.covariances_size(),
                            covariances ? CountCovariances(options, row_count) : 0));
  return CheckSize("values of paths", response.paths_size(),
                   std::min(options.returned_paths, paths) * rows);
}

}  // namespace

absl::StatusOr<v1::SummarizeResponse> Client::Summarize(const std::string& id,
                                                        const DataFrame& rows,
                                                        const SummarizeOptions& options,
                                                        const CallOptions& call) {
  RETURN_IF_ERROR(CheckQueryRows(rows, options.known, options.group_sizes));
  const v1::SummarizeRequest request = ToProto(id, rows, options);
  v1::SummarizeResponse response;
  const absl::Status status = Run(call, [&](const Deadline& deadline) {
    return UnaryCall(connection_->calls(), &v1::Chorale::Stub::PrepareAsyncSummarize, request, id,
                     deadline, call.cancellation, &response);
  });
  if (absl::IsUnimplemented(status)) {
    return absl::UnimplementedError(
        "the server does not support Summarize, because it is older than this client: upgrade the "
        "server, or compute statistics of samples");
  }
  RETURN_IF_ERROR(status);
  // Older servers draw all paths, and do not send their number.
  if (response.path_count() == 0) response.set_path_count(options.path_count);
  RETURN_IF_ERROR(CheckResponse(response, options, rows.row_count()));
  return response;
}

}  // namespace chorale::client
