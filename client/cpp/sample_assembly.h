// Assembles the blocks of a sampling stream and checks that each value arrives exactly once.
#ifndef CHORALE_CLIENT_CPP_SAMPLE_ASSEMBLY_H_
#define CHORALE_CLIENT_CPP_SAMPLE_ASSEMBLY_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "chorale/v1/chorale.pb.h"

namespace chorale::client {

// The order in which a path draws the query rows.
enum class RowOrder { kGiven, kRandomPerPath };

enum class StepDensities { kOmit, kInclude };

// The type in which the server sends values and log-densities. float32 halves the bytes; the
// relative error is at most 2^-24 (v1::SampleRequest.float32_values).
enum class Precision { kFloat64, kFloat32 };

// B joint sample paths over T query rows, in the order of the rows and the units of the target
// column. A path draws the U query rows whose values are not known. With groups of query rows, a
// path over all rows consists of a path over each group, which are independent.
struct Samples {
  int64_t first_path = 0;      // the index of the first path among those of the seed
  int64_t path_count = 0;      // B
  int64_t row_count = 0;       // T
  int64_t step_count = 0;      // U: of all groups together
  std::vector<double> values;  // [B, T], row-major, with the known values
  // [B, T], only for StepDensities::kInclude: the natural log-density of each value, conditional on
  // the earlier values of its path; NaN for known values. The sum of the others over a path is the
  // path's joint log-density, conditional on the known values.
  std::vector<double> log_densities;
  // [B, U], only for random orders: the query row that a path drew at each step, first those of the
  // first group, then those of the next group.
  std::vector<int32_t> rows_by_step;
  std::vector<int64_t> first_steps;  // [G]: the index of the first step of each group
  v1::SampleSummary summary;

  // Appends the paths that follow these, of a call with the same seed and rows, or of on_paths
  // (client.h). Keeps the summary, unless there are no paths yet.
  void Append(const Samples& next);
};

// Thread-compatible.
class SampleAssembly {
 public:
  // Requires path_count > 0, row_count > 0, and valid known rows and groups (known_values.h,
  // groups.h).
  SampleAssembly(int64_t path_count, int64_t row_count, RowOrder order, StepDensities densities,
                 const v1::KnownValues& known = {}, absl::Span<const int32_t> group_sizes = {},
                 int64_t first_path = 0, Precision precision = Precision::kFloat64);

  // Adds the values of a block. Blocks may arrive in any order, and in float64 even if float32 is
  // requested, because older servers do not support it. DataLoss, with the reason, if the
  // block is outside [B, U], if its arrays do not match its ranges, or if it repeats a step or a
  // query row of a path. Unimplemented if it has values of known rows, or ignores groups.
  absl::Status Add(const v1::SampleBlock& block);

  // The number of values drawn so far, of B * U.
  int64_t value_count() const { return value_count_; }

  // Whether more paths are complete, together with all earlier paths, than NextPaths has returned.
  bool has_more_paths() const { return complete_ > returned_; }
  // Returns these paths.
  Samples NextPaths();

  // Returns the samples. Call once, at the end of the stream. DataLoss if values are missing.
  absl::StatusOr<Samples> Finish(v1::SampleSummary summary);

 private:
  absl::Status CheckShape(const v1::SampleBlock& block) const;
  absl::Status Place(const v1::SampleBlock& block, int64_t path_in_block, int64_t step_in_block);

  // The number of steps of a path over a group.
  int64_t StepsOf(int64_t group) const;
  // Whether the block has float32 values. An older server sends float64 values nevertheless.
  bool HasFloats(const v1::SampleBlock& block) const {
    return precision_ == Precision::kFloat32 && !block.float_values().empty();
  }
  // Whether blocks have the query rows of their values.
  bool has_rows() const { return has_groups_ || order_ == RowOrder::kRandomPerPath; }

  const RowOrder order_;
  const StepDensities densities_;
  const Precision precision_;
  const bool has_groups_;
  const std::vector<int64_t> group_of_;    // [T]
  const std::vector<int64_t> drawn_rows_;  // [U]: the query rows whose values are not known
  std::vector<bool> is_known_;             // [T]
  Samples samples_;
  int64_t value_count_ = 0;
  std::vector<int64_t> missing_;  // [B]: the values of each path that have not arrived
  int64_t complete_ = 0;          // the first paths, without those after one with missing values
  int64_t returned_ = 0;          // by NextPaths
  std::vector<bool> step_seen_;   // [B, U]
  std::vector<bool> row_seen_;    // [B, T]
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_SAMPLE_ASSEMBLY_H_
