#include "engine/session/predict_session.h"

#include <algorithm>
#include <utility>

#include "engine/session/mixture_results.h"

namespace chorale {
namespace {

// The tile that is being summarised and the next tile, so that the summary thread is never idle.
constexpr int64_t kMaxAwaitingSummary = 2;
// The maximum number of rows, and of quantiles of all rows together, that is summarised in less
// than a millisecond.
constexpr int64_t kShortSummary = 32;

// Copies `part`, the results of rows from first_row on, to `all`. Each row has `width` numbers.
void CopyRows(const std::vector<double>& part, int64_t first_row, int64_t width,
              std::vector<double>* all) {
  std::copy(part.begin(), part.end(), all->begin() + first_row * width);
}

}  // namespace

PredictSession::PredictSession(CallStart start, const SessionEnvironment* environment,
                               std::shared_ptr<const PredictRequest> request,
                               Callback<PredictResult> done)
    : TiledSession(std::move(start), environment, WorkKind::kPredict),
      request_(std::move(request)),
      done_(std::move(done)) {}

void PredictSession::Start() {
  const size_t rows = static_cast<size_t>(query_rows());
  result_.mean.resize(rows);
  result_.std.resize(rows);
  result_.quantiles.resize(rows * request_->quantiles.size());
  if (request_->want_mixtures)
    result_.mixtures = MakeMixtures(query_rows(), config().num_components);
  TiledSession::Start();
}

void PredictSession::StartTile(TileSlot<PredictWork>* slot, PoolRange buffer) {
  PredictSpec spec;
  spec.context = resident();
  spec.query_rows = rows();
  spec.buffer = buffer;
  spec.first_row = slot->first_path;
  spec.rows = slot->paths;
  slot->work = environment().backend->NewPredict(std::move(spec));
}

void PredictSession::CollectTiles(absl::Time now) {
  const bool any_done = std::any_of(
      slots().begin(), slots().end(),
      [](const TileSlot<PredictWork>& slot) { return slot.work != nullptr && slot.work->done(); });
  if (any_done) NoteFirstStep(now);
  HandOver();
}

void PredictSession::HandOver() {
  for (TileSlot<PredictWork>& slot : slots()) {
    if (awaiting_summary_ == kMaxAwaitingSummary) return;
    if (slot.work == nullptr || !slot.work->done()) continue;
    ReportValues(kind(), slot.paths);
    Summarise(slot);
    StartNextTile(&slot);
  }
  if (AllTilesTaken()) ReleaseResources();  // summaries do not use them
  if (summarised_rows_ == query_rows()) Complete();
}

bool PredictSession::SummaryIsShort(int64_t rows) const {
  return rows * static_cast<int64_t>(request_->quantiles.size()) <= kShortSummary &&
         rows <= kShortSummary;
}

void PredictSession::Summarise(const TileSlot<PredictWork>& slot) {
  auto mixtures = std::make_shared<RawMixtures>();
  mixtures->components = config().num_components;
  for (int64_t row = 0; row < slot.paths; ++row) mixtures->Append(slot.work->mixture(row));
  const auto summarise = [mixtures, request = request_, context = context_pointer()] {
    return SummariseRows(*mixtures, context->transform, request->quantiles, request->want_mixtures,
                         request->snapping);
  };
  const int64_t first_row = slot.first_path;
  if (SummaryIsShort(slot.paths) && environment().may_summarise_at_once()) {
    const absl::Time start = environment().clock->Now();
    Store(first_row, summarise());
    environment().metrics->SummaryTime(environment().clock->Now() - start);
    return;
  }
  ++awaiting_summary_;
  RunOnSummaryThread([this, summarise, first_row]() -> SessionEnvironment::Continuation {
    auto summary = std::make_shared<PredictResult>(summarise());
    return [this, summary, first_row] {
      --awaiting_summary_;
      Store(first_row, *summary);
      HandOver();
    };
  });
}

void PredictSession::Store(int64_t first_row, const PredictResult& summary) {
  const int64_t components = summary.mixtures.components;
  CopyRows(summary.mean, first_row, 1, &result_.mean);
  CopyRows(summary.std, first_row, 1, &result_.std);
  CopyRows(summary.quantiles, first_row, static_cast<int64_t>(request_->quantiles.size()),
           &result_.quantiles);
  CopyRows(summary.mixtures.means, first_row, components, &result_.mixtures.means);
  CopyRows(summary.mixtures.stds, first_row, components, &result_.mixtures.stds);
  CopyRows(summary.mixtures.weights, first_row, components, &result_.mixtures.weights);
  summarised_rows_ += static_cast<int64_t>(summary.mean.size());
}

void PredictSession::Deliver(absl::Status status, absl::Time now) {
  Answer(done_, std::move(status), std::move(result_), now);
}

}  // namespace chorale
