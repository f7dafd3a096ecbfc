#include "engine/session/predict_session.h"

#include <algorithm>
#include <utility>

#include "engine/session/grouped_paths.h"
#include "engine/session/mixture_results.h"

namespace chorale {
namespace {

// Enough rows that the summary threads are never idle.
constexpr int64_t kMostRowsAwaitingSummary = 1'024;
// The quantiles of a part: about a millisecond.
constexpr int64_t kPartQuantiles = 512;
// The maximum number of rows, and of quantiles of all rows together, that is summarised in less
// than a millisecond.
constexpr int64_t kShortSummary = 32;

// Copies row i of `part` to row rows[i] of `all`. Each row has `width` numbers.
void CopyRows(const std::vector<double>& part, const std::vector<int64_t>& rows, int64_t width,
              std::vector<double>* all) {
  if (part.empty()) return;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(part.begin() + i * width, width, all->begin() + rows[i] * width);
  }
}

}  // namespace

PredictSession::PredictSession(CallStart start, const SessionEnvironment* environment,
                               std::shared_ptr<const PredictRequest> request,
                               Callback<PredictResult> done)
    : TiledSession(std::move(start), environment,
                   request->known.count() == 0 ? WorkKind::kPredict : WorkKind::kDensity),
      request_(std::move(request)),
      done_(std::move(done)) {}

std::vector<EqualPaths> PredictSession::PlanPaths() {
  groups_.emplace(*request_);
  predicted_ = PredictedRows(*groups_);
  return PredictionLengths(*groups_, predicted_);
}

void PredictSession::Start() {
  const size_t rows = predicted_.size();
  result_.mean.resize(rows);
  result_.std.resize(rows);
  result_.quantiles.resize(rows * request_->quantiles.size());
  result_.known_log_densities.resize(request_->known.sets() * groups_->count());
  if (request_->want_mixtures) {
    result_.mixtures = MakeMixtures(groups_->unknown(), config().num_components);
  }
  quantiles_ = std::make_shared<const std::vector<kernels::QuantileTarget>>(
      request_->quantiles.begin(), request_->quantiles.end());
  TiledSession::Start();
}

void PredictSession::StartTile(PredictSlot* slot, PoolRange buffer) {
  if (kind() == WorkKind::kPredict) {
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
  spec.first_row = slot->tile.first_path;
  spec.rows = slot->tile.paths;
  std::unique_ptr<PredictWork> work = environment().backend->NewPredict(std::move(spec));
  slot->marginal = work.get();
  slot->work = std::move(work);
}

void PredictSession::StartConditionalTile(PredictSlot* slot, PoolRange buffer) {
  const auto& [first_path, paths, positions] = slot->tile;
  const int64_t known = positions - 1;
  TileSpec tile{resident(), rows(), paths, {}, /*first_mixture=*/0};
  // No result depends on the value at the last position.
  std::vector<float> values(positions * paths);
  for (int64_t p = 0; p < paths; ++p) {
    const int32_t row = predicted_[first_path + p];
    const int64_t group = groups_->GroupOf(row);
    const absl::Span<const int32_t> known_rows = groups_->rows(group).first(known);
    tile.order.insert(tile.order.end(), known_rows.begin(), known_rows.end());
    tile.order.push_back(row);
    for (int64_t i = 0; i < known; ++i) {
      values[i * paths + p] = context().transform.ToModel(groups_->KnownValue(group, 0, i));
    }
  }
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

// Takes those of the groups whose first predicted rows are in the tile.
void PredictSession::TakeKnownLogDensities(const PredictSlot& slot) {
  const auto& [first_path, paths, positions] = slot.tile;
  const int64_t known = positions - 1;
  for (int64_t p = 0; p < paths; ++p) {
    const int32_t row = predicted_[first_path + p];
    const int64_t group = groups_->GroupOf(row);
    if (row != groups_->rows(group)[known]) continue;
    result_.known_log_densities[group] =
        KnownLogDensity(slot.conditional->log_densities(), paths, p, known, context().transform);
  }
}

void PredictSession::HandOver() {
  for (PredictSlot& slot : slots()) {
    if (awaiting_summary_ >= kMostRowsAwaitingSummary) break;
    if (slot.work == nullptr || !slot.work->done()) continue;
    ReportValues(WorkKind::kPredict, slot.tile.paths);
    if (slot.conditional != nullptr) TakeKnownLogDensities(slot);
    Summarise(slot);
    StartNextTile(&slot);
  }
  if (AllTilesTaken()) ReleaseResources();  // summaries do not use them
  if (summarised_rows_ == groups_->unknown()) Complete();
}

// Whether all rows of the request can be summarised in a short job.
bool PredictSession::SummaryIsShort(int64_t rows) const {
  return rows * static_cast<int64_t>(request_->quantiles.size()) <= kShortSummary &&
         rows <= kShortSummary;
}

void PredictSession::Summarise(const PredictSlot& slot) {
  const auto& [first_path, paths, positions] = slot.tile;
  const bool is_short = SummaryIsShort(groups_->unknown());
  const auto quantiles = static_cast<int64_t>(request_->quantiles.size());
  const int64_t rows_of_part =
      std::max<int64_t>(1, kPartQuantiles / std::max<int64_t>(quantiles, 4));
  for (int64_t first = 0; first < paths; first += rows_of_part) {
    auto mixtures = std::make_shared<RawMixtures>();
    mixtures->components = config().num_components;
    for (int64_t p = first; p < std::min(first + rows_of_part, paths); ++p) {
      mixtures->Append(slot.conditional == nullptr ? slot.marginal->mixture(p)
                                                   : slot.conditional->mixture(p, positions - 1));
    }
    SummariseOnThread(is_short, first_path + first, std::move(mixtures));
  }
}

void PredictSession::SummariseOnThread(bool is_short, int64_t first_path,
                                       std::shared_ptr<const RawMixtures> mixtures) {
  const int64_t rows = mixtures->rows();
  const auto summarise = [mixtures = std::move(mixtures), request = request_,
                          quantiles = quantiles_, context = context_pointer()] {
    return SummariseRows(*mixtures, context->transform, *quantiles, request->want_mixtures,
                         request->snapping);
  };
  if (is_short && environment().may_summarise_at_once()) {
    const absl::Time start = environment().clock->Now();
    Store(first_path, summarise());
    environment().metrics->SummaryTime(environment().clock->Now() - start);
    return;
  }
  awaiting_summary_ += rows;
  RunOnSummaryThread(is_short, [this, summarise, first_path]() -> SessionEnvironment::Continuation {
    auto summary = std::make_shared<PredictResult>(summarise());
    return [this, summary, first_path] {
      awaiting_summary_ -= static_cast<int64_t>(summary->mean.size());
      Store(first_path, *summary);
      HandOver();
    };
  });
}

void PredictSession::Store(int64_t first_path, const PredictResult& summary) {
  std::vector<int64_t> rows;  // of the results
  for (size_t i = 0; i < summary.mean.size(); ++i) {
    rows.push_back(groups_->UnknownIndex(predicted_[first_path + i]));
  }
  const int64_t components = summary.mixtures.components;
  CopyRows(summary.mean, rows, 1, &result_.mean);
  CopyRows(summary.std, rows, 1, &result_.std);
  CopyRows(summary.quantiles, rows, static_cast<int64_t>(request_->quantiles.size()),
           &result_.quantiles);
  CopyRows(summary.mixtures.means, rows, components, &result_.mixtures.means);
  CopyRows(summary.mixtures.stds, rows, components, &result_.mixtures.stds);
  CopyRows(summary.mixtures.weights, rows, components, &result_.mixtures.weights);
  summarised_rows_ += static_cast<int64_t>(summary.mean.size());
}

void PredictSession::Deliver(absl::Status status, absl::Time now) {
  Answer(done_, std::move(status), std::move(result_), now);
}

}  // namespace chorale
