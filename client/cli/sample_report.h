// Prints joint samples: every value, or a summary.
#ifndef CHORALE_CLIENT_CLI_SAMPLE_REPORT_H_
#define CHORALE_CLIENT_CLI_SAMPLE_REPORT_H_

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/cli/report.h"
#include "client/cpp/sample_assembly.h"

namespace chorale::client {

// The origin of samples.
struct SampleTitle {
  std::string context;
  std::string target;                      // the target column
  std::vector<std::string> groups = {};    // [G]: labels; empty without groups
  std::vector<int64_t> group_of_row = {};  // [T]; empty without groups
};

// Prints a line for each value (path, row, value), with the known values. Used by one thread.
class SampleWriter {
 public:
  // `out` must outlive the writer. `format` is not kJson.
  enum class Header { kOmit, kInclude };
  SampleWriter(const SampleTitle& title, Format format, Header header, std::ostream* out)
      : title_(title), format_(format), header_(header), out_(out) {}

  // Adds paths. All of them have log-densities, steps and weights, or none.
  void Add(const Samples& samples);
  // Call once, after the last path.
  void Finish();

 private:
  const SampleTitle title_;
  const Format format_;
  const Header header_;
  std::ostream* const out_;
  std::optional<ReportWriter> report_;  // since the first path
};

// Prints a JSON object with [B, T] arrays, with the known values.
void WriteSamplesJson(const Samples& samples, const SampleTitle& title, std::ostream* out);

// Whether a summary compares the samples with the actual values, which are then observed values.
// Otherwise they are the known values on which the samples are conditional.
enum class Comparison { kOmit, kInclude };

// Prints a line for each query row and each joint quantity and, with kTable, sentences. `actual`
// [T] has the values of the target, with NaN for missing values, or is empty.
void WriteSampleSummary(const Samples& samples, absl::Span<const double> actual,
                        Comparison comparison, const SampleTitle& title, Format format,
                        std::ostream* out);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_SAMPLE_REPORT_H_
