#include <algorithm>
#include <utility>

#include "tests/client/cpp/fake_known_values.h"
#include "tests/client/cpp/fake_service.h"

namespace chorale::client {
namespace {

// Adds the statistics of a row or of a functional.
template <class Statistics>
void AddStatistics(double mean, const google::protobuf::RepeatedField<double>& quantiles,
                   Statistics* out) {
  out->add_means(mean);
  out->add_mean_errors(mean / 16);
  out->add_stds(mean / 4);
  for (const double p : quantiles) {
    out->add_quantiles(mean + p);
    out->add_quantile_errors(p);
  }
}

void AddFunctional(const v1::Functional& functional, const v1::SummarizeRequest& request,
                   v1::FunctionalSummary* out) {
  std::vector<int64_t> rows(functional.rows().begin(), functional.rows().end());
  for (int64_t row = 0; functional.rows().empty() && row < RowCount(request.rows()); ++row) {
    rows.push_back(row);
  }
  if (functional.type() >= v1::Functional::TYPE_ARGMAX &&
      functional.type() <= v1::Functional::TYPE_RANK) {
    for (const int64_t row : rows) AddStatistics(static_cast<double>(row), {}, out);
    return;
  }
  int64_t first = 0;
  std::vector<int64_t> sizes(request.group_sizes().begin(), request.group_sizes().end());
  if (sizes.empty()) sizes.push_back(RowCount(request.rows()));
  for (const int64_t size : sizes) {
    const auto own = std::count_if(rows.begin(), rows.end(),
                                   [&](int64_t row) { return first <= row && row < first + size; });
    AddStatistics(static_cast<double>(own) + functional.threshold(), request.quantiles(), out);
    first += size;
  }
}

}  // namespace

void FakeService::set_summary_fault(std::function<void(v1::SummarizeResponse*)> fault) {
  MutexLock lock(&mutex_);
  summary_fault_ = std::move(fault);
}

v1::SummarizeRequest FakeService::last_summarize() const {
  MutexLock lock(&mutex_);
  return last_summarize_;
}

grpc::Status FakeService::Summarize(grpc::ServerContext* server_context,
                                    const v1::SummarizeRequest* request,
                                    v1::SummarizeResponse* response) {
  if (grpc::Status status = Begin(server_context); !status.ok()) return status;
  v1::Context context;
  if (grpc::Status status = Find(request->context(), &context); !status.ok()) return status;
  const uint64_t seed = request->has_seed() ? request->seed() : kPickedSeed;
  const std::vector<double> scores = Scores(request->rows());
  const auto groups =
      FakeGroups(request->known(), request->group_sizes(), RowCount(request->rows()));
  // Every target error is met by half of the paths.
  const bool has_target = request->target_mean_error() > 0 ||
                          request->target_quantile_error() > 0 ||
                          std::any_of(request->functionals().begin(), request->functionals().end(),
                                      [](const v1::Functional& functional) {
                                        return functional.target_mean_error() > 0 ||
                                               functional.target_quantile_error() > 0;
                                      });
  const int64_t paths = request->path_count() / (has_target ? 2 : 1);
  response->set_path_count(paths);
  std::vector<std::vector<double>> values(paths);
  for (const FakeKnownValues& group : groups) {
    std::vector<double> means;
    for (const int64_t row : group.others()) {
      double sum = 0.0;
      for (int64_t path = 0; path < paths; ++path) {
        values[path].push_back(SampleValue(scores[row] + group.Shift(path), path, seed));
        sum += values[path].back();
      }
      means.push_back(sum / static_cast<double>(paths));
      AddStatistics(means.back(), request->quantiles(), response);
    }
    for (const double a : means) {
      for (const double b : means) {
        if (request->include_covariances()) response->add_covariances(a + b);
      }
    }
  }
  for (const v1::Functional& functional : request->functionals()) {
    AddFunctional(functional, *request, response->add_functionals());
  }
  for (int64_t path = 0; path < std::min(request->returned_path_count(), paths); ++path) {
    response->mutable_paths()->Add(values[path].begin(), values[path].end());
  }
  response->set_seed(seed);
  response->mutable_source()->set_context_digest(context.digest());
  auto* const known = response->mutable_known_log_densities();
  AddKnownLogDensities(request->known(), groups, known);
  const auto of_paths = static_cast<int>(paths * static_cast<int64_t>(groups.size()));
  if (known->size() > of_paths) known->Truncate(of_paths);
  AddWarnings(request->rows(), response->mutable_warnings());
  MutexLock lock(&mutex_);
  last_summarize_ = *request;
  if (summary_fault_) summary_fault_(response);
  return grpc::Status::OK;
}

}  // namespace chorale::client
