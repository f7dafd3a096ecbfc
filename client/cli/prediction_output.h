// Prints marginal predictions while they arrive.
#ifndef CHORALE_CLIENT_CLI_PREDICTION_OUTPUT_H_
#define CHORALE_CLIENT_CLI_PREDICTION_OUTPUT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/environment.h"
#include "client/cli/growing_output.h"
#include "client/cli/report.h"
#include "client/cpp/client.h"

namespace chorale::client {

// Writes a line for each predicted row, in the order of the file: its number, mean, standard
// deviation, quantiles and mixture. CSV and JSON lines are written as soon as the predictions of
// the row and of all earlier rows are there, so that memory does not grow with the number of rows;
// a table is written at the end. Used by one thread.
class PredictionOutput {
 public:
  enum class Header { kOmit, kInclude };
  // `rows` [U]: the predicted rows of the file, in the order in which their predictions arrive.
  // Without a header, the output continues that of an earlier command. `environment` must outlive
  // this object.
  PredictionOutput(std::vector<int64_t> rows, std::vector<double> quantiles, Header header,
                   const Environment* environment);

  Format format() const { return format_; }
  // Whether a terminal shows lines while they arrive, which those of the progress would disturb.
  bool ShowsLines() const;

  // Adds the next predictions.
  absl::Status Add(const Predictions& next);
  // Call at the end, if the call was successful.
  absl::Status Finish();
  // Call at the end, if the call has ended early. Writes to standard error where the lines are and,
  // if `continues`, the command that predicts the other rows.
  void EndEarly(bool continues);

 private:
  std::vector<std::string> Columns(int64_t components) const;
  void Write(const std::vector<Cell>& cells);

  const std::vector<int64_t> rows_;
  const std::vector<int64_t> ascending_;  // [U]: the same rows
  const std::vector<double> quantiles_;   // their probabilities
  const Header header_;
  const Environment& environment_;
  const Format format_;
  GrowingOutput output_;
  std::optional<ReportWriter> writer_;            // since the first predictions
  size_t arrived_ = 0;                            // of rows_
  size_t written_ = 0;                            // of ascending_
  std::map<int64_t, std::vector<Cell>> waiting_;  // by row: lines for which earlier ones are absent
  bool failed_ = false;                           // the lines cannot be written
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_PREDICTION_OUTPUT_H_
