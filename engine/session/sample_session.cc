#include "engine/session/sample_session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/session/random_key.h"

namespace chorale {

SampleSession::SampleSession(CallStart start, const SessionEnvironment* environment,
                             std::shared_ptr<const SampleRequest> request,
                             std::shared_ptr<SampleObserver> observer)
    : TiledSession(std::move(start), environment, WorkKind::kDecode),
      request_(std::move(request)),
      observer_(std::move(observer)) {}

void SampleSession::Start() {
  random_key_ = RandomKey(*request_->seed, source());
  path_rows_.emplace(request_->known.rows, query_rows());
  summary_.known_log_densities.resize(request_->known.sets());
  TiledSession::Start();
}

void SampleSession::StartTile(SampleSlot* slot, PoolRange buffer) {
  slot->delivered = path_rows_->known();
  slot->order = request_->order == RowOrder::kRandomPerPath
                    ? path_rows_->RandomOrders(random_key_, slot->first_path, slot->paths)
                    : path_rows_->GivenOrder(slot->paths);
  DecodeSpec spec;
  spec.tile = {resident(), rows(), slot->paths, slot->order};
  spec.buffer = buffer;
  spec.seed = random_key_;
  spec.first_path = slot->first_path;
  spec.forced_values = ForcedValues(*slot);
  slot->work = environment().backend->NewDecode(std::move(spec));
}

// Returns DecodeSpec::forced_values of the tile, [N, paths].
std::vector<float> SampleSession::ForcedValues(const SampleSlot& slot) const {
  std::vector<float> values;
  values.reserve(path_rows_->known() * slot.paths);
  for (int64_t i = 0; i < path_rows_->known(); ++i) {
    for (int64_t path = 0; path < slot.paths; ++path) {
      values.push_back(
          context().transform.ToModel(request_->known.value(slot.first_path + path, i)));
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
    const int64_t share = allowance / running-- / slot.paths;
    const int64_t steps = std::clamp<int64_t>(share, 1, slot.work->steps_at_this_cost());
    allowance -= steps * slot.paths;
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
  const int64_t paths = slot->paths;
  SampleBlock block;
  block.first_path = slot->first_path;
  block.paths = paths;
  block.first_step = slot->delivered - path_rows_->known();
  block.steps = slot->work->steps_done() - slot->delivered;
  const int64_t count = paths * block.steps;
  block.values.resize(count);
  if (request_->want_log_densities) block.log_densities.resize(count);
  const bool own_orders = request_->order == RowOrder::kRandomPerPath;
  if (own_orders) block.query_rows.resize(count);

  // By position, [T, paths].
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
      if (own_orders) block.query_rows[out] = slot->order[path * query_rows() + position];
    }
  }
  slot->delivered += block.steps;
  delivered_values_ += count;
  return block;
}

void SampleSession::TakeKnownLogDensities(const SampleSlot& slot) {
  const int64_t known = path_rows_->known();
  const double log_scale = std::log(context().transform.y_std());
  const absl::Span<const double> log_densities = slot.work->log_densities();  // [T, paths]
  for (int64_t path = 0; path < slot.paths; ++path) {
    const int64_t set = slot.first_path + path;
    if (set >= request_->known.sets()) break;  // all paths share one set
    double sum = 0;
    for (int64_t i = 0; i < known; ++i) sum += log_densities[i * slot.paths + path] - log_scale;
    summary_.known_log_densities[set] = sum;
  }
}

void SampleSession::Deliver(absl::Status status, absl::Time now) {
  summary_.seed = *request_->seed;
  if (status.ok()) Describe(now, &summary_);
  observer_->OnDone(status, summary_);
}

}  // namespace chorale
