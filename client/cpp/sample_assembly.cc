#include "client/cpp/sample_assembly.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cpp/groups.h"
#include "client/cpp/known_values.h"

namespace chorale::client {
namespace {

absl::Status Loss(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the server's samples are invalid: ", what));
}

// Returns the rows [begin, end) of a matrix, which may be empty.
template <class Value>
std::vector<Value> Part(const std::vector<Value>& matrix, int64_t begin, int64_t end,
                        int64_t columns) {
  if (matrix.empty()) return {};
  return {matrix.begin() + begin * columns, matrix.begin() + end * columns};
}

template <class Value>
void AppendTo(std::vector<Value>* all, const std::vector<Value>& next) {
  all->insert(all->end(), next.begin(), next.end());
}

// Whether [first, first + count) is a non-empty part of [0, size). Cannot overflow.
bool Within(int64_t first, int64_t count, int64_t size) {
  return first >= 0 && count > 0 && first < size && count <= size - first;
}

}  // namespace

void Samples::Append(const Samples& next) {
  if (path_count == 0) {
    *this = next;
    return;
  }
  path_count += next.path_count;
  AppendTo(&values, next.values);
  AppendTo(&log_densities, next.log_densities);
  AppendTo(&rows_by_step, next.rows_by_step);
}

SampleAssembly::SampleAssembly(int64_t path_count, int64_t row_count, RowOrder order,
                               StepDensities densities, const v1::KnownValues& known,
                               absl::Span<const int32_t> group_sizes, int64_t first_path,
                               Precision precision)
    : order_(order),
      densities_(densities),
      precision_(precision),
      has_groups_(!group_sizes.empty()),
      group_of_(GroupOfEachRow(group_sizes, row_count)),
      drawn_rows_(OtherRows(known, row_count)),
      is_known_(row_count, false) {
  const size_t size = static_cast<size_t>(path_count) * static_cast<size_t>(row_count);
  samples_.first_path = first_path;
  samples_.path_count = path_count;
  samples_.row_count = row_count;
  samples_.step_count = static_cast<int64_t>(drawn_rows_.size());
  for (int64_t step = 0; step < samples_.step_count; ++step) {
    const auto next_group = static_cast<int64_t>(samples_.first_steps.size());
    if (group_of_[drawn_rows_[step]] == next_group) samples_.first_steps.push_back(step);
  }
  const size_t drawn = static_cast<size_t>(path_count) * drawn_rows_.size();
  constexpr double kNotDrawn = std::numeric_limits<double>::quiet_NaN();
  samples_.values.resize(size, kNotDrawn);
  if (densities == StepDensities::kInclude) samples_.log_densities.resize(size, kNotDrawn);
  if (order == RowOrder::kRandomPerPath) samples_.rows_by_step.resize(drawn, -1);
  missing_.resize(path_count, samples_.step_count);
  step_seen_.resize(drawn);
  row_seen_.resize(size);
  const bool of_each_path = known.values_size() != known.rows_size();
  for (int i = 0; i < known.rows_size(); ++i) {
    is_known_[known.rows(i)] = true;
    for (int64_t path = 0; path < path_count; ++path) {
      const int64_t at = of_each_path ? path * known.rows_size() + i : i;
      if (at >= known.values_size()) break;  // the server rejects this number of values
      samples_.values[path * row_count + known.rows(i)] = known.values(static_cast<int>(at));
    }
  }
}

absl::Status SampleAssembly::Add(const v1::SampleBlock& block) {
  RETURN_IF_ERROR(CheckShape(block));
  for (int64_t path = 0; path < block.path_count(); ++path) {
    for (int64_t step = 0; step < block.step_count(); ++step) {
      RETURN_IF_ERROR(Place(block, path, step));
    }
  }
  return absl::OkStatus();
}

int64_t SampleAssembly::StepsOf(int64_t group) const {
  const auto next = static_cast<size_t>(group) + 1;
  const int64_t end =
      next < samples_.first_steps.size() ? samples_.first_steps[next] : samples_.step_count;
  return end - samples_.first_steps[group];
}

absl::Status SampleAssembly::CheckShape(const v1::SampleBlock& block) const {
  if (has_groups_ && block.paths().empty()) return GroupsIgnored();
  const bool in_steps = Within(block.first_step(), block.step_count(), samples_.step_count);
  if (!in_steps && Within(block.first_step(), block.step_count(), samples_.row_count)) {
    return KnownValuesIgnored();
  }
  const auto groups = static_cast<int64_t>(samples_.first_steps.size());
  // With groups, the indices of the paths are in `paths`.
  const int64_t from = has_groups_ ? 0 : samples_.first_path;
  if (!in_steps || block.first_path() < from ||
      !Within(block.first_path() - from, block.path_count(), samples_.path_count * groups)) {
    return Loss(absl::StrCat("a block of paths ", block.first_path(), " +", block.path_count(),
                             ", steps ", block.first_step(), " +", block.step_count(), " in ",
                             samples_.path_count, " paths of ", samples_.step_count, " steps from ",
                             samples_.first_path));
  }
  const int64_t size = block.path_count() * block.step_count();
  const int64_t densities = densities_ == StepDensities::kInclude ? size : 0;
  const int64_t row_indices = has_rows() ? size : 0;
  const bool floats = HasFloats(block);
  const int64_t values = floats ? block.float_values_size() : block.values_size();
  const int64_t log_densities =
      floats ? block.float_log_densities_size() : block.log_densities_size();
  if (values != size || log_densities != densities || block.rows_size() != row_indices) {
    return Loss(absl::StrCat("a block of ", size, " values has ", values, " values, ",
                             log_densities, " log-densities and ", block.rows_size(),
                             " query rows"));
  }
  if (block.paths_size() != (has_groups_ ? block.path_count() : 0)) {
    return Loss(absl::StrCat("a block of ", block.path_count(), " paths has ", block.paths_size(),
                             " indices of paths"));
  }
  return absl::OkStatus();
}

absl::Status SampleAssembly::Place(const v1::SampleBlock& block, int64_t path_in_block,
                                   int64_t step_in_block) {
  const int64_t index = has_groups_ ? block.paths(static_cast<int>(path_in_block))
                                    : block.first_path() + path_in_block;
  const int64_t path = index - samples_.first_path;
  const int64_t step = block.first_step() + step_in_block;
  const int from = static_cast<int>(path_in_block * block.step_count() + step_in_block);
  const int64_t row = has_rows() ? block.rows(from) : drawn_rows_[step];
  if (row < 0 || row >= samples_.row_count) {
    return Loss(absl::StrCat("query row ", row, " of ", samples_.row_count));
  }
  if (path < 0 || path >= samples_.path_count) {
    return Loss(
        absl::StrCat("path ", index, " of ", samples_.path_count, " from ", samples_.first_path));
  }
  if (is_known_[row]) return KnownValuesIgnored();
  const int64_t group = group_of_[row];
  if (step >= StepsOf(group)) {
    return Loss(absl::StrCat("step ", step, " of a group of ", StepsOf(group), " steps"));
  }
  const size_t by_step = path * samples_.step_count + samples_.first_steps[group] + step;
  const size_t by_row = path * samples_.row_count + row;
  if (step_seen_[by_step] || row_seen_[by_row]) {
    return Loss(absl::StrCat(
        "path ", index, " has ",
        step_seen_[by_step] ? absl::StrCat("step ", step) : absl::StrCat("query row ", row),
        " twice"));
  }
  step_seen_[by_step] = true;
  row_seen_[by_row] = true;
  const bool floats = HasFloats(block);
  samples_.values[by_row] = floats ? block.float_values(from) : block.values(from);
  if (densities_ == StepDensities::kInclude) {
    samples_.log_densities[by_row] =
        floats ? block.float_log_densities(from) : block.log_densities(from);
  }
  if (order_ == RowOrder::kRandomPerPath) {
    samples_.rows_by_step[by_step] = static_cast<int32_t>(row);
  }
  ++value_count_;
  --missing_[path];
  while (complete_ < samples_.path_count && missing_[complete_] == 0) ++complete_;
  return absl::OkStatus();
}

Samples SampleAssembly::NextPaths() {
  Samples paths;
  paths.first_path = samples_.first_path + returned_;
  paths.path_count = complete_ - returned_;
  paths.row_count = samples_.row_count;
  paths.step_count = samples_.step_count;
  paths.first_steps = samples_.first_steps;
  paths.values = Part(samples_.values, returned_, complete_, samples_.row_count);
  paths.log_densities = Part(samples_.log_densities, returned_, complete_, samples_.row_count);
  paths.rows_by_step = Part(samples_.rows_by_step, returned_, complete_, samples_.step_count);
  returned_ = complete_;
  return paths;
}

absl::StatusOr<Samples> SampleAssembly::Finish(v1::SampleSummary summary) {
  const int64_t expected = samples_.path_count * samples_.step_count;
  if (value_count_ != expected) {
    return Loss(absl::StrCat(value_count_, " of ", expected, " values arrived"));
  }
  samples_.summary = std::move(summary);
  return std::move(samples_);
}

}  // namespace chorale::client
