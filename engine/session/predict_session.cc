#include "engine/session/predict_session.h"

#include <algorithm>
#include <utility>

#include "engine/session/mixture_results.h"
#include "engine/session/request_validation.h"

namespace chorale {
namespace {

// One that is summarised and one that is next, so that the summary thread need not wait for us.
constexpr int64_t kMaxAwaitingSummary = 2;

// Copies `part`, results of rows first_row and up, with `width` numbers per row, into `all`.
void Place(const std::vector<double>& part, int64_t first_row, int64_t width,
           std::vector<double>* all) {
  std::copy(part.begin(), part.end(), all->begin() + first_row * width);
}

}  // namespace

PredictSession::PredictSession(CallStart start, const SessionEnvironment* environment,
                               std::shared_ptr<const PredictRequest> request,
                               Engine::Callback<PredictResult> done)
    : Session(std::move(start), environment),
      request_(std::move(request)),
      done_(std::move(done)) {}

Preparation PredictSession::Prepare(std::shared_ptr<const PredictRequest> request,
                                    const Limits* limits, const Backend* backend) {
  return PrepareTargets(request, backend, [request, limits, backend](const ModelConfig& config) {
    return ValidatePredict(*request, config, *limits, *backend);
  });
}

TilePlan PredictSession::Plan() const {
  return PlanTiles(*environment().backend, config(), targets(), targets(), environment().max_slices,
                   TileWork::kPredict);
}

void PredictSession::Start() {
  const size_t rows = static_cast<size_t>(targets());
  result_.mean.resize(rows);
  result_.std.resize(rows);
  result_.quantiles.resize(rows * request_->quantiles.size());
  if (request_->want_mixtures) result_.mixtures = MakeMixtures(targets(), config().num_components);
  plan_ = Plan();
  chunks_.resize(plan_.slots);
  for (size_t i = 0; i < chunks_.size(); ++i) {
    if (plan_.slot_bytes > 0) chunks_[i].buffer = std::move(buffers()[i]);
    StartNextChunk(&chunks_[i]);
  }
}

void PredictSession::StartNextChunk(Chunk* chunk) {
  chunk->work.reset();
  if (next_chunk_ == plan_.tiles) {
    chunk->buffer.Reset();
    return;
  }
  const int64_t next = next_chunk_++;
  chunk->first_row = plan_.first_path(next);
  chunk->rows = plan_.paths_of(next);
  PredictSpec spec;
  spec.context = resident();
  spec.targets = rows();
  spec.buffer = {chunk->buffer.range().offset,
                 environment().backend->PredictBytes(config(), chunk->rows)};
  spec.first_row = chunk->first_row;
  spec.rows = chunk->rows;
  chunk->work = environment().backend->NewPredict(std::move(spec));
}

void PredictSession::AppendTiles(std::vector<Runnable>* runnable) {
  for (const Chunk& chunk : chunks_) {
    if (chunk.work == nullptr || chunk.work->done()) continue;
    runnable->push_back({chunk.work.get(), chunk.work->steps_at_this_cost()});
  }
}

void PredictSession::CollectTiles(absl::Time now) {
  const bool any_done = std::any_of(chunks_.begin(), chunks_.end(), [](const Chunk& chunk) {
    return chunk.work != nullptr && chunk.work->done();
  });
  if (any_done) NoteFirstStep(now);
  HandOver();
}

void PredictSession::HandOver() {
  for (Chunk& chunk : chunks_) {
    if (awaiting_summary_ == kMaxAwaitingSummary) return;
    if (chunk.work == nullptr || !chunk.work->done()) continue;
    SummariseAside(chunk);
    StartNextChunk(&chunk);
  }
  const bool all_done = std::all_of(chunks_.begin(), chunks_.end(),
                                    [](const Chunk& chunk) { return chunk.work == nullptr; });
  if (all_done) ReleaseResources();  // what is left to do needs none of them
}

void PredictSession::SummariseAside(const Chunk& chunk) {
  auto mixtures = std::make_shared<RawMixtures>();
  mixtures->components = config().num_components;
  for (int64_t row = 0; row < chunk.rows; ++row) mixtures->Append(chunk.work->mixture(row));
  ++awaiting_summary_;
  RunAside([this, mixtures, request = request_, context = context_pointer(),
            first_row = chunk.first_row]() -> SessionEnvironment::Continuation {
    auto summary = std::make_shared<PredictResult>(
        SummariseRows(*mixtures, context->transform, request->quantiles, request->want_mixtures));
    return [this, summary, first_row] { TakeSummary(first_row, *summary); };
  });
}

void PredictSession::TakeSummary(int64_t first_row, const PredictResult& summary) {
  const int64_t components = summary.mixtures.components;
  Place(summary.mean, first_row, 1, &result_.mean);
  Place(summary.std, first_row, 1, &result_.std);
  Place(summary.quantiles, first_row, static_cast<int64_t>(request_->quantiles.size()),
        &result_.quantiles);
  Place(summary.mixtures.means, first_row, components, &result_.mixtures.means);
  Place(summary.mixtures.stds, first_row, components, &result_.mixtures.stds);
  Place(summary.mixtures.weights, first_row, components, &result_.mixtures.weights);
  summarised_rows_ += static_cast<int64_t>(summary.mean.size());
  --awaiting_summary_;
  HandOver();
  if (summarised_rows_ == targets()) Complete();
}

void PredictSession::ReleaseResources() {
  chunks_.clear();
  Session::ReleaseResources();
}

void PredictSession::Deliver(absl::Status status, absl::Time now) {
  Answer(done_, std::move(status), std::move(result_), now);
}

}  // namespace chorale
