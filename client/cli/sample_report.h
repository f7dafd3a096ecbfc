// Prints joint samples: every value, or a summary.
#ifndef CHORALE_CLIENT_CLI_SAMPLE_REPORT_H_
#define CHORALE_CLIENT_CLI_SAMPLE_REPORT_H_

#include <ostream>
#include <string>

#include "absl/types/span.h"
#include "client/cli/report.h"
#include "client/cpp/sample_assembly.h"

namespace chorale::client {

// What the samples are of.
struct SampleTitle {
  std::string context;
  std::string target;  // the target column
};

// Prints a line per value (path, row, value), or one JSON object with [B, T] arrays. Values that
// were not drawn (NaN) have no line, and are null in JSON.
void WriteSamples(const Samples& samples, const SampleTitle& title, Format format,
                  std::ostream* out);

// Prints a line per target row and per joint quantity; with kTable also sentences. `known` [T] has
// NaN for unknown values, or is empty.
void WriteSampleSummary(const Samples& samples, absl::Span<const double> known,
                        const SampleTitle& title, Format format, std::ostream* out);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_SAMPLE_REPORT_H_
