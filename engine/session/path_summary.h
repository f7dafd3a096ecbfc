// Reduces the values of the paths of a request to its statistics.
#ifndef CHORALE_ENGINE_SESSION_PATH_SUMMARY_H_
#define CHORALE_ENGINE_SESSION_PATH_SUMMARY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/api/request.h"
#include "engine/session/conditional_estimates.h"
#include "engine/session/path_statistics.h"
#include "engine/session/query_groups.h"

namespace chorale {

// Takes the values of the first n of B paths, [n, T] in all, and then computes their statistics in
// stages. Then it can begin anew with more paths, which keeps the values. A stage has parts of at
// most a few milliseconds, so that others can use the threads between them.
//
// Thread contract: several threads may compute parts of a stage at the same time. All other calls
// come one after the other.
class PathSummary {
 public:
  // `estimates` has begun with the same paths, and taken their mixtures, by the first part; null:
  // there is none.
  // REQUIRES: the request is valid, and has its seed.
  PathSummary(std::shared_ptr<const SummarizeRequest> request,
              std::shared_ptr<const ConditionalEstimates> estimates);

  // From now on, the result is that of the first `paths` paths. REQUIRES: as
  // ConditionalEstimates::Begin.
  void Begin(int64_t paths);
  void Take(const SampleBlock& block);

  int64_t stages() const { return static_cast<int64_t>(stages_.size()); }
  int64_t parts(int64_t stage) const { return static_cast<int64_t>(stages_[stage].size()); }
  // Computes a part of a stage. REQUIRES: all values were taken, and the parts of all earlier
  // stages were computed.
  void Compute(int64_t stage, int64_t part) { stages_[stage][part](); }
  // REQUIRES: all parts were computed.
  const SummarizeResult& result() const { return result_; }
  SummarizeResult TakeResult() { return std::move(result_); }

 private:
  // The rows of a functional that belong to a group.
  struct RowsOfGroup {
    std::vector<int32_t> rows;
    std::vector<int64_t> indexes;  // of these rows, in the functional
    std::vector<double> weights;   // of these rows, or empty
  };

  void AddStage() { stages_.emplace_back(); }
  void AddPart(std::function<void()> part) { stages_.back().push_back(std::move(part)); }
  const double* ValuesOf(int32_t row) const { return values_.data() + row * request_->paths; }

  void AddRowParts();
  void AddFunctionalParts(size_t functional);
  void AddCovarianceParts();
  void AddConditionalParts();
  void SummarizeRow(int64_t unknown);
  void SummarizeFunctional(size_t functional, int64_t group);
  void ComputeCovariances(int64_t group, int64_t row, int64_t offset);
  void CopyPaths();
  std::vector<RowsOfGroup> DivideRows(const Functional& functional) const;

  const std::shared_ptr<const SummarizeRequest> request_;
  const std::shared_ptr<const ConditionalEstimates> estimates_;
  const PathDependence dependence_;
  const QueryGroups groups_;
  int64_t paths_ = 0;                                     // n
  std::vector<int32_t> unknown_rows_;                     // [U], ascending
  std::vector<double> values_;                            // [T, B]
  std::vector<std::vector<RowsOfGroup>> of_functionals_;  // [F, G]
  std::vector<std::vector<std::function<void()>>> stages_;
  SummarizeResult result_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_PATH_SUMMARY_H_
