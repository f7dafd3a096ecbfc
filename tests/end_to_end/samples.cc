#include "tests/end_to_end/samples.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace chorale::end_to_end {
namespace {

// Index of the first element whose bits differ, or -1.
int64_t FirstDifference(const std::vector<double>& a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(double)) != 0) return static_cast<int64_t>(i);
  }
  return -1;
}

}  // namespace

bool SameBits(const Samples& a, const Samples& b) { return Difference(a, b).empty(); }

std::string Difference(const Samples& a, const Samples& b) {
  for (const Samples* samples : {&a, &b}) {
    if (samples->complete()) continue;
    return absl::StrCat("incomplete: code ", static_cast<int>(samples->status.error_code()), " ",
                        samples->status.error_message(), "; ", samples->problem,
                        samples->has_summary ? "" : "; no summary");
  }
  if (a.values.size() != b.values.size() || a.log_densities.size() != b.log_densities.size()) {
    return "different shapes";
  }
  if (a.order != b.order) return "different orders";
  int64_t at = FirstDifference(a.values, b.values);
  if (at >= 0) {
    return absl::StrCat("value of path ", at / a.query_rows, " query row ", at % a.query_rows, ": ",
                        a.values[at], " and ", b.values[at]);
  }
  at = FirstDifference(a.log_densities, b.log_densities);
  if (at >= 0) {
    return absl::StrCat("log-density of path ", at / a.query_rows, " query row ", at % a.query_rows,
                        ": ", a.log_densities[at], " and ", b.log_densities[at]);
  }
  return "";
}

SampleStream::SampleStream(v1::Chorale::Stub& stub, const v1::SampleRequest& request,
                           absl::Duration timeout)
    : want_log_densities_(request.include_log_densities()),
      first_path_(request.first_path()),
      float32_(request.float32_values()) {
  samples_.paths = request.path_count();
  if (request.rows().columns_size() > 0) {
    const v1::Column& column = request.rows().columns(0);
    // Only one form has cells.
    samples_.query_rows = column.numeric().values_size() + column.categorical().codes_size() +
                          column.bools().values_size() + column.integers().values_size() +
                          column.strings().values_size() + column.dates().days_size() +
                          column.timestamps().microseconds_size();
  }
  // A request that the server is to refuse may ask for any number.
  constexpr int64_t kMostValues = 1 << 24;
  const bool fits = samples_.paths > 0 && samples_.query_rows > 0 &&
                    samples_.paths <= kMostValues / samples_.query_rows;
  const int64_t size = fits ? samples_.paths * samples_.query_rows : 0;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  samples_.values.assign(size, nan);
  samples_.log_densities.assign(want_log_densities_ ? size : 0, nan);
  samples_.order.assign(size, -1);
  seen_.assign(size, 0);
  has_groups_ = request.group_sizes_size() > 0;
  FillKnown(request.known());
  context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  reader_ = stub.Sample(&context_, request);
}

void SampleStream::FillKnown(const v1::KnownValues& known) {
  const int64_t query_rows = samples_.query_rows;
  std::vector<bool> is_known(query_rows);
  const int64_t paths = samples_.values.empty() ? 0 : samples_.paths;
  for (int i = 0; i < known.rows_size(); ++i) {
    const int32_t row = known.rows(i);
    if (row < 0 || row >= query_rows) continue;  // a request that the server is to refuse
    is_known[row] = true;
    for (int64_t path = 0; path < paths; ++path) {
      const int64_t set = known.values_size() > known.rows_size() ? path : 0;
      const int64_t value = set * known.rows_size() + i;
      if (value < known.values_size()) {
        samples_.values[path * query_rows + row] = known.values(static_cast<int>(value));
      }
      seen_[path * query_rows + row] = 1;
      if (i < query_rows && !has_groups_) samples_.order[path * query_rows + i] = row;
    }
  }
  for (int32_t row = 0; row < query_rows; ++row) {
    if (!is_known[row]) drawn_rows_.push_back(row);
  }
}

SampleStream::~SampleStream() {
  if (finished_) return;
  Cancel();
  Finish();
}

bool SampleStream::ReadOne() {
  v1::SampleResponse response;
  if (!reader_->Read(&response)) return false;
  if (samples_.has_summary) samples_.problem = "a message after the summary";
  if (response.has_blocks()) samples_.bytes += static_cast<int64_t>(response.ByteSizeLong());
  for (const v1::SampleBlock& block : response.blocks().blocks()) Add(block);
  if (response.has_summary()) {
    samples_.has_summary = true;
    samples_.summary = response.summary();
  }
  return true;
}

Samples SampleStream::Finish() {
  while (ReadOne()) {
  }
  samples_.status = reader_->Finish();
  finished_ = true;
  const auto missing = std::count(seen_.begin(), seen_.end(), 0);
  if (samples_.status.ok() && samples_.problem.empty() && missing > 0) {
    samples_.problem = absl::StrCat(missing, " values never came");
  }
  return samples_;
}

void SampleStream::Add(const v1::SampleBlock& block) {
  const int64_t count = block.path_count() * block.step_count();
  const auto steps = static_cast<int64_t>(drawn_rows_.size());
  const int64_t first_path = has_groups_ ? 0 : block.first_path() - first_path_;
  const bool fits = first_path >= 0 && block.first_step() >= 0 && count > 0 &&
                    (has_groups_ || first_path + block.path_count() <= samples_.paths) &&
                    block.first_step() + block.step_count() <= steps;
  const int64_t densities = want_log_densities_ ? count : 0;
  const bool sizes = block.values_size() == (float32_ ? 0 : count) &&
                     block.float_values_size() == (float32_ ? count : 0) &&
                     block.log_densities_size() == (float32_ ? 0 : densities) &&
                     block.float_log_densities_size() == (float32_ ? densities : 0) &&
                     (block.rows_size() == count || block.rows_size() == 0) &&
                     block.paths_size() == (has_groups_ ? block.path_count() : 0);
  if (!fits || !sizes) {
    samples_.problem = "a block of the wrong shape: " + block.ShortDebugString().substr(0, 200);
    return;
  }
  const int64_t fewest = samples_.fewest_steps;
  samples_.fewest_steps = fewest == 0 ? block.step_count() : std::min(fewest, block.step_count());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t p = i / block.step_count();
    const int64_t path = has_groups_ ? block.paths(p) - first_path_ : first_path + p;
    if (path < 0 || path >= samples_.paths) {
      samples_.problem = absl::StrCat("no path ", path);
      return;
    }
    const int64_t step = block.first_step() + i % block.step_count();
    const int64_t query_row = block.rows_size() > 0 ? block.rows(i) : drawn_rows_[step];
    if (query_row < 0 || query_row >= samples_.query_rows) {
      samples_.problem = absl::StrCat("no query row ", query_row);
      return;
    }
    const int64_t at = path * samples_.query_rows + query_row;
    if (++seen_[at] > 1) {
      samples_.problem = absl::StrCat("path ", path, " query row ", query_row, " came twice");
    }
    samples_.values[at] = float32_ ? block.float_values(i) : block.values(i);
    if (want_log_densities_) {
      samples_.log_densities[at] = float32_ ? block.float_log_densities(i) : block.log_densities(i);
    }
    if (has_groups_) continue;
    const int64_t position = samples_.query_rows - steps + step;
    samples_.order[path * samples_.query_rows + position] = static_cast<int32_t>(query_row);
  }
}

}  // namespace chorale::end_to_end
