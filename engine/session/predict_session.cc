#include "engine/session/predict_session.h"

#include <algorithm>
#include <cmath>
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
    : TiledSession(std::move(start), environment,
                   request->known.count() == 0 ? WorkKind::kPredict : WorkKind::kDensity),
      request_(std::move(request)),
      done_(std::move(done)) {}

void PredictSession::Start() {
  path_rows_.emplace(request_->known.rows, query_rows());
  const size_t rows = static_cast<size_t>(paths());
  result_.mean.resize(rows);
  result_.std.resize(rows);
  result_.quantiles.resize(rows * request_->quantiles.size());
  if (request_->want_mixtures) result_.mixtures = MakeMixtures(paths(), config().num_components);
  TiledSession::Start();
}

void PredictSession::StartTile(PredictSlot* slot, PoolRange buffer) {
  if (path_rows_->known() == 0) {
    StartMarginalTile(slot, buffer);
  } else {
    StartConditionalTile(slot, buffer);
  }
}

void PredictSession::StartMarginalTile(PredictSlot* slot, PoolRange buffer) {
  PredictSpec spec;
  spec.context = resident();
  spec.query_rows = rows();
  spec.buffer = buffer;
  spec.first_row = slot->first_path;
  spec.rows = slot->paths;
  std::unique_ptr<PredictWork> work = environment().backend->NewPredict(std::move(spec));
  slot->marginal = work.get();
  slot->work = std::move(work);
}

void PredictSession::StartConditionalTile(PredictSlot* slot, PoolRange buffer) {
  const int64_t known = path_rows_->known();
  // No result depends on the value at the last position.
  std::vector<float> values((known + 1) * slot->paths);
  for (int64_t i = 0; i < known; ++i) {
    std::fill_n(values.begin() + i * slot->paths, slot->paths,
                context().transform.ToModel(request_->known.value(0, i)));
  }
  TileSpec tile{resident(), rows(), slot->paths,
                path_rows_->PredictionOrders(slot->first_path, slot->paths),
                /*keep_mixtures=*/true};
  std::unique_ptr<DensityWork> work =
      environment().backend->NewDensity({std::move(tile), buffer, std::move(values)});
  slot->conditional = work.get();
  slot->work = std::move(work);
}

void PredictSession::CollectTiles(absl::Time now) {
  const bool any_done = std::any_of(slots().begin(), slots().end(), [](const PredictSlot& slot) {
    return slot.work != nullptr && slot.work->done();
  });
  if (any_done) NoteFirstStep(now);
  HandOver();
}

void PredictSession::TakeKnownLogDensity(const PredictSlot& slot) {
  const double log_scale = std::log(context().transform.y_std());
  double sum = 0;
  for (int64_t i = 0; i < path_rows_->known(); ++i) {
    sum += slot.conditional->log_densities()[i * slot.paths] - log_scale;
  }
  result_.known_log_densities = {sum};
}

void PredictSession::HandOver() {
  for (PredictSlot& slot : slots()) {
    if (awaiting_summary_ == kMaxAwaitingSummary) return;
    if (slot.work == nullptr || !slot.work->done()) continue;
    ReportValues(WorkKind::kPredict, slot.paths);
    if (slot.conditional != nullptr && slot.first_path == 0) TakeKnownLogDensity(slot);
    Summarise(slot);
    StartNextTile(&slot);
  }
  if (AllTilesTaken()) ReleaseResources();  // summaries do not use them
  if (summarised_rows_ == paths()) Complete();
}

bool PredictSession::SummaryIsShort(int64_t rows) const {
  return rows * static_cast<int64_t>(request_->quantiles.size()) <= kShortSummary &&
         rows <= kShortSummary;
}

void PredictSession::Summarise(const PredictSlot& slot) {
  auto mixtures = std::make_shared<RawMixtures>();
  mixtures->components = config().num_components;
  for (int64_t row = 0; row < slot.paths; ++row) {
    mixtures->Append(slot.conditional == nullptr
                         ? slot.marginal->mixture(row)
                         : slot.conditional->mixture(row, path_rows_->known()));
  }
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
