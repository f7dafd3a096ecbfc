#include "engine/session/summarize_session.h"

#include <array>
#include <utility>

#include "engine/session/target_errors.h"

namespace chorale {
namespace {

// The mixtures of a batch: a few milliseconds. Of 20 components, they have 2 MB.
constexpr int64_t kBatchMixtures = 4'096;
// Enough batches that the summary threads are never idle.
constexpr size_t kMostBatches = 8;
// Adjacent paths that belong to one lane.
constexpr int64_t kLanePaths = 32;

}  // namespace

SummarizeSession::SummarizeSession(CallStart start, const SessionEnvironment* environment,
                                   std::shared_ptr<const SummarizeRequest> request,
                                   Callback<SummarizeResult> done)
    : DrawSession(std::move(start), environment, request),
      request_(std::move(request)),
      done_(std::move(done)),
      rounds_(Checkpoints(*request_)) {}

void SummarizeSession::Start() {
  if (ConditionalEstimates::Apply(*request_, context())) {
    estimates_ = std::make_shared<ConditionalEstimates>(request_, context_pointer());
  }
  summary_ = std::make_shared<PathSummary>(request_, estimates_);
  BeginRound();
  LimitTiles(TilesOfRounds(1));
  DrawSession::Start();
}

void SummarizeSession::BeginRound() {
  drawn_ = false;
  stage_ = 0;
  if (estimates_ != nullptr) estimates_->Begin(rounds_[round_]);
  summary_->Begin(rounds_[round_]);
}

// Draws no further values while the summary threads are behind.
void SummarizeSession::AppendTiles(std::vector<Slice>* slices) {
  if (batches_ < kMostBatches) DrawSession::AppendTiles(slices);
}

void SummarizeSession::TakeMixtures(const DrawSlot& slot) {
  if (estimates_ == nullptr) return;
  std::array<MixtureBatch, kLanes> batches;
  for (int64_t p = 0; p < slot.tile.paths; ++p) {
    const auto path = static_cast<int32_t>(PathOf(slot, p).path);
    const size_t lane = path / kLanePaths % kLanes;
    MixtureBatch& batch = batches[lane];
    for (int64_t position = slot.taken; position < slot.work->steps_done(); ++position) {
      batch.mixtures.Append(slot.work->mixture(p, position));
      batch.rows.push_back(RowOf(slot, p, position));
      batch.paths.push_back(path);
    }
    if (batch.size() >= kBatchMixtures) AddBatch(lane, std::exchange(batch, {}));
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (batches[lane].size() > 0) AddBatch(lane, std::move(batches[lane]));
  }
}

void SummarizeSession::AddBatch(size_t lane, MixtureBatch batch) {
  batch.mixtures.components = config().num_components;
  lanes_[lane].push_back(std::make_shared<const MixtureBatch>(std::move(batch)));
  ++batches_;
  if (lanes_[lane].size() == 1) TakeNextBatch(lane);
}

void SummarizeSession::TakeNextBatch(size_t lane) {
  RunOnSummaryThread(
      /*is_short=*/false,
      [this, lane, estimates = estimates_,
       batch = lanes_[lane].front()]() -> SessionEnvironment::Continuation {
        estimates->Take(*batch);
        return [this, lane] {
          lanes_[lane].pop_front();
          --batches_;
          if (!lanes_[lane].empty()) TakeNextBatch(lane);
          if (drawn_ && batches_ == 0) StartStage();
        };
      });
}

void SummarizeSession::CollectTiles(absl::Time now) {
  if (!drawn_) DrawSession::CollectTiles(now);
}

void SummarizeSession::EndDraws() {
  drawn_ = true;
  if (IsLastRound()) ReleaseResources();  // parts do not use them
  if (batches_ == 0) StartStage();
}

void SummarizeSession::StartStage() {
  if (stage_ == summary_->stages()) {
    EndRound();
    return;
  }
  parts_left_ = summary_->parts(stage_);
  for (int64_t part = 0; part < summary_->parts(stage_); ++part) {
    RunOnSummaryThread(
        /*is_short=*/false,
        [this, part, stage = stage_, summary = summary_]() -> SessionEnvironment::Continuation {
          summary->Compute(stage, part);
          return [this] {
            if (--parts_left_ > 0) return;
            ++stage_;
            StartStage();
          };
        });
  }
}

void SummarizeSession::EndRound() {
  if (IsLastRound() || MeetsTargetErrors(*request_, summary_->result())) {
    result_ = summary_->TakeResult();
    Complete();
    return;
  }
  ++round_;
  BeginRound();
  RaiseTileLimit(TilesOfRounds(static_cast<int64_t>(round_) + 1));
}

void SummarizeSession::Deliver(absl::Status status, absl::Time now) {
  result_.seed = *request_->seed;
  result_.known_log_densities = TakeKnownLogDensities();
  if (status.ok() && request_->known.sets() > 1) {  // one for each path
    result_.known_log_densities.resize(result_.path_count * groups().count());
  }
  Answer(done_, std::move(status), std::move(result_), now);
}

}  // namespace chorale
