// Reduces the values of the paths of a request to its statistics.
#ifndef CHORALE_ENGINE_SESSION_PATH_SUMMARY_H_
#define CHORALE_ENGINE_SESSION_PATH_SUMMARY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/api/request.h"
#include "engine/session/query_groups.h"

namespace chorale {

// Takes the values of all paths, [B, T] in all, and then computes the result in parts of at most a
// few milliseconds, so that others can use the thread between them.
//
// Not thread-safe. The calls may come from different threads, one after the other.
class PathSummary {
 public:
  // REQUIRES: the request is valid, and has its seed.
  explicit PathSummary(std::shared_ptr<const SummarizeRequest> request);

  void Take(const SampleBlock& block);

  // Computes the next part. Returns false if that was the last one. REQUIRES: all values were
  // taken, and no earlier call returned false.
  bool ComputeNextPart();
  // REQUIRES: ComputeNextPart returned false.
  SummarizeResult TakeResult() { return std::move(result_); }

 private:
  // The rows of a functional that belong to a group.
  struct RowsOfGroup {
    std::vector<int32_t> rows;
    std::vector<int64_t> indexes;  // of these rows, in the functional
    std::vector<double> weights;   // of these rows, or empty
  };

  int64_t paths() const { return request_->paths; }  // B
  const double* ValuesOf(int32_t row) const { return values_.data() + row * paths(); }

  void AddRowParts();
  void AddFunctionalParts(size_t functional);
  void AddCovarianceParts();
  void SummarizeRow(int64_t unknown);
  void SummarizeFunctional(size_t functional, int64_t group);
  void ComputeCovariances(int64_t group, int64_t row, int64_t offset);
  void CopyPaths();
  std::vector<RowsOfGroup> DivideRows(const Functional& functional) const;

  const std::shared_ptr<const SummarizeRequest> request_;
  const QueryGroups groups_;
  std::vector<int32_t> unknown_rows_;                     // [U], ascending
  std::vector<double> values_;                            // [T, B]
  std::vector<std::vector<RowsOfGroup>> of_functionals_;  // [F, G]
  std::vector<std::function<void()>> parts_;
  size_t next_part_ = 0;
  SummarizeResult result_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_PATH_SUMMARY_H_
