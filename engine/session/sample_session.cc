#include "engine/session/sample_session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/session/mixture_results.h"
#include "engine/session/random_key.h"

namespace chorale {

SampleSession::SampleSession(CallStart start, const SessionEnvironment* environment,
                             std::shared_ptr<const SampleRequest> request,
                             std::shared_ptr<SampleObserver> observer)
    : TiledSession(std::move(start), environment, WorkKind::kDecode),
      request_(std::move(request)),
      observer_(std::move(observer)) {}

std::vector<EqualPaths> SampleSession::PlanPaths() {
  groups_.emplace(*request_);
  paths_.emplace(&*groups_, request_->paths);
  return paths_->lengths();
}

void SampleSession::Start() {
  random_key_ = RandomKey(*request_->seed, source());
  summary_.known_log_densities.resize(request_->known.sets() * groups_->count());
  TiledSession::Start();
}

void SampleSession::StartTile(SampleSlot* slot, PoolRange buffer) {
  const auto& [first_path, paths, positions] = slot->tile;
  slot->known = groups_->known(paths_->At(first_path).group);
  slot->delivered = slot->known;
  slot->order = request_->order == RowOrder::kRandomPerPath
                    ? paths_->RandomOrders(random_key_, first_path, paths)
                    : paths_->GivenOrder(first_path, paths);
  DecodeSpec spec;
  spec.tile = {resident(), rows(), paths, slot->order};
  spec.buffer = buffer;
  spec.seed = random_key_;
  spec.path_numbers = paths_->Numbers(first_path, paths);
  spec.forced_values = ForcedValues(*slot);
  slot->work = environment().backend->NewDecode(std::move(spec));
}

// Returns DecodeSpec::forced_values of the tile, [N, paths].
std::vector<float> SampleSession::ForcedValues(const SampleSlot& slot) const {
  const auto& [first_path, paths, positions] = slot.tile;
  std::vector<float> values(slot.known * paths);
  for (int64_t p = 0; p < paths; ++p) {
    const auto [group, path] = paths_->At(first_path + p);
    for (int64_t i = 0; i < slot.known; ++i) {
      values[i * paths + p] = context().transform.ToModel(groups_->KnownValue(group, path, i));
    }
  }
  return values;
}

int64_t SampleSession::UnacknowledgedValues() const {
  return delivered_values_ - control().acknowledged;
}

bool SampleSession::WaitsForReader() const {
  return state() == State::kRunning &&
         UnacknowledgedValues() >= environment().max_unacknowledged_values;
}

// Appends no tile once the unacknowledged values have reached the limit. The steps of a tick exceed
// the limit by less than one step of one tile.
void SampleSession::AppendTiles(std::vector<Slice>* slices) {
  int64_t allowance = environment().max_unacknowledged_values - UnacknowledgedValues();
  int64_t running = 0;
  for (const SampleSlot& slot : slots()) running += slot.work != nullptr ? 1 : 0;
  for (const SampleSlot& slot : slots()) {
    if (slot.work == nullptr) continue;
    if (allowance <= 0) return;
    const int64_t share = allowance / running-- / slot.tile.paths;
    const int64_t steps = std::clamp<int64_t>(share, 1, slot.work->steps_at_this_cost());
    allowance -= steps * slot.tile.paths;
    slices->push_back({slot.work.get(), steps});
  }
}

void SampleSession::CollectTiles(absl::Time now) {
  const int64_t earlier = delivered_values_;
  for (SampleSlot& slot : slots()) {
    if (slot.work == nullptr) continue;
    if (slot.work->steps_done() > slot.delivered) {
      if (delivered_values_ == 0) {
        NoteFirstStep(now);
        environment().metrics->TimeToFirstStep(now - arrival());
      }
      observer_->OnBlock(TakeBlock(&slot));
    }
    if (!slot.work->done()) continue;
    TakeKnownLogDensities(slot);
    StartNextTile(&slot);
  }
  if (delivered_values_ > earlier) ReportValues(kind(), delivered_values_ - earlier);
  if (AllTilesTaken()) Complete();
}

SampleBlock SampleSession::TakeBlock(SampleSlot* slot) {
  const auto& [first_path, paths, positions] = slot->tile;
  SampleBlock block;
  block.paths = paths;
  if (request_->group_sizes.empty()) {
    block.first_path = first_path;
  } else {
    for (int64_t p = first_path; p < first_path + paths; ++p) {
      block.path_indices.push_back(static_cast<int32_t>(paths_->At(p).path));
    }
  }
  block.first_step = slot->delivered - slot->known;
  block.steps = slot->work->steps_done() - slot->delivered;
  const int64_t count = paths * block.steps;
  block.values.resize(count);
  if (request_->want_log_densities) block.log_densities.resize(count);
  const bool names_rows =
      request_->order == RowOrder::kRandomPerPath || !request_->group_sizes.empty();
  if (names_rows) block.query_rows.resize(count);

  // By position, [P, paths].
  const absl::Span<const float> values = slot->work->values();
  const absl::Span<const double> log_densities = slot->work->log_densities();
  const FeatureTransform& transform = context().transform;
  const bool snaps = request_->snapping == Snapping::kOn;
  const double log_scale = std::log(transform.y_std());
  for (int64_t path = 0; path < paths; ++path) {
    for (int64_t i = 0; i < block.steps; ++i) {
      const int64_t position = slot->delivered + i;
      const int64_t out = path * block.steps + i;
      const double value = transform.ToUser(values[position * paths + path]);
      block.values[out] = snaps ? transform.target_support().Snap(value) : value;
      if (request_->want_log_densities) {
        block.log_densities[out] = log_densities[position * paths + path] - log_scale;
      }
      if (names_rows) {
        block.query_rows[out] = slot->order.empty() ? static_cast<int32_t>(position)
                                                    : slot->order[path * positions + position];
      }
    }
  }
  slot->delivered += block.steps;
  delivered_values_ += count;
  return block;
}

void SampleSession::TakeKnownLogDensities(const SampleSlot& slot) {
  const auto& [first_path, paths, positions] = slot.tile;
  for (int64_t p = 0; p < paths; ++p) {
    const auto [group, path] = paths_->At(first_path + p);
    if (path >= request_->known.sets()) continue;  // all paths share one set
    summary_.known_log_densities[path * groups_->count() + group] =
        KnownLogDensity(slot.work->log_densities(), paths, p, slot.known, context().transform);
  }
}

void SampleSession::Deliver(absl::Status status, absl::Time now) {
  summary_.seed = *request_->seed;
  if (status.ok()) Describe(now, &summary_);
  observer_->OnDone(status, summary_);
}

}  // namespace chorale
