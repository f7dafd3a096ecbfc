#include "client/cli/prediction_output.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/continuation.h"
#include "client/cli/quantiles.h"

namespace chorale::client {
namespace {

std::vector<int64_t> Ascending(std::vector<int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  return rows;
}

// The line of the prediction at index `at`.
std::vector<Cell> LineOf(const Predictions& predictions, size_t at, int64_t row) {
  std::vector<Cell> cells = {row, predictions.means[at], predictions.stds[at]};
  const size_t quantiles = predictions.quantiles.size() / predictions.means.size();
  for (size_t q = 0; q < quantiles; ++q) {
    cells.emplace_back(predictions.quantiles[at * quantiles + q]);
  }
  const v1::Mixtures& mixtures = predictions.mixtures;
  for (int64_t k = 0; k < mixtures.component_count(); ++k) {
    const int i = static_cast<int>(static_cast<int64_t>(at) * mixtures.component_count() + k);
    cells.emplace_back(mixtures.weights(i));
    cells.emplace_back(mixtures.means(i));
    cells.emplace_back(mixtures.stds(i));
  }
  return cells;
}

}  // namespace

PredictionOutput::PredictionOutput(std::vector<int64_t> rows, std::vector<double> quantiles,
                                   Header header, const Environment* environment)
    : rows_(std::move(rows)),
      ascending_(Ascending(rows_)),
      quantiles_(std::move(quantiles)),
      header_(header),
      environment_(*environment),
      format_(environment->format(Environment::Readers::kPrograms)),
      output_(environment->options.output, header == Header::kOmit) {}

bool PredictionOutput::ShowsLines() const {
  return format_ != Format::kTable && environment_.options.output.empty() &&
         isatty(STDOUT_FILENO) == 1;
}

std::vector<std::string> PredictionOutput::Columns(int64_t components) const {
  std::vector<std::string> columns = {"row", "mean", "sd"};
  for (const double p : quantiles_) columns.push_back(QuantileName(p));
  for (int64_t k = 0; k < components; ++k) {
    for (const char* part : {"weight", "mean", "sd"}) {
      columns.push_back(absl::StrCat("component", k, "_", part));
    }
  }
  return columns;
}

void PredictionOutput::Write(const std::vector<Cell>& cells) {
  writer_->Add(cells);
  ++written_;
}

absl::Status PredictionOutput::Add(const Predictions& next) {
  if (!writer_.has_value()) {
    ASSIGN_OR_RETURN(std::ostream* const out, output_.Open());
    writer_.emplace(Columns(next.mixtures.component_count()), format_, out,
                    header_ == Header::kInclude);
  }
  for (size_t i = 0; i < next.means.size(); ++i) {
    const int64_t row = rows_[arrived_++];
    std::vector<Cell> cells = LineOf(next, i, row);
    if (row != ascending_[written_]) {
      waiting_.emplace(row, std::move(cells));
      continue;
    }
    Write(cells);
    while (!waiting_.empty() && waiting_.begin()->first == ascending_[written_]) {
      Write(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
  }
  absl::Status status = output_.Flush();
  failed_ = !status.ok();
  return status;
}

absl::Status PredictionOutput::Finish() {
  writer_->Finish();
  RETURN_IF_ERROR(output_.Flush());
  return output_.Finish();
}

void PredictionOutput::EndEarly(bool continues) {
  if (written_ == 0 || failed_) return;
  writer_->Finish();
  PartialResults results{.unit = "rows",
                         .count = static_cast<int64_t>(written_),
                         .total = static_cast<int64_t>(rows_.size()),
                         .place = output_.place(),
                         .verb = "predicts",
                         .replaced = {}};
  if (const absl::Status status = output_.Flush(); !status.ok()) results.place = status;
  if (continues && written_ < ascending_.size()) {
    results.replaced = {{"--first-row", static_cast<uint64_t>(ascending_[written_])}};
  }
  NotePartialResults(results, format_, environment_);
}

}  // namespace chorale::client
