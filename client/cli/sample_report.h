// How joint samples are shown: every value, or a summary.
#ifndef CHORALE_CLIENT_CLI_SAMPLE_REPORT_H_
#define CHORALE_CLIENT_CLI_SAMPLE_REPORT_H_

#include <ostream>
#include <string>

#include "absl/types/span.h"
#include "client/cli/report.h"
#include "client/cpp/sample_assembly.h"

namespace chorale::client {

// Who the samples are of.
struct SampleTitle {
  std::string context;
  std::string target;  // the target column
};

// A line per value (path, row, value), or one JSON object with [B, T] arrays.
void WriteSamples(const Samples& samples, const SampleTitle& title, Format format,
                  std::ostream* out);

// A line per target row and per joint quantity; as a table, also in words. `known` [T], NaN where a
// value is not known; empty when none is.
void WriteSampleSummary(const Samples& samples, absl::Span<const double> known,
                        const SampleTitle& title, Format format, std::ostream* out);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_SAMPLE_REPORT_H_
