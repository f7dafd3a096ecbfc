#include "engine/session/sample_session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/session/request_validation.h"
#include "engine/session/target_orders.h"

namespace chorale {

SampleSession::SampleSession(CallStart start, const SessionEnvironment* environment,
                             std::shared_ptr<const SampleRequest> request,
                             std::shared_ptr<SampleObserver> observer)
    : Session(std::move(start), environment),
      request_(std::move(request)),
      observer_(std::move(observer)) {}

Preparation SampleSession::Prepare(std::shared_ptr<const SampleRequest> request,
                                   const Limits* limits, const Backend* backend) {
  return PrepareTargets(request, backend, [request, limits, backend](const ModelConfig& config) {
    return ValidateSample(*request, config, *limits, *backend);
  });
}

TilePlan SampleSession::Plan() const {
  return PlanTiles(*environment().backend, config(), request_->paths, targets(),
                   environment().max_slices, TileWork::kDecode);
}

void SampleSession::Start() {
  plan_ = Plan();
  slots_.resize(plan_.slots);
  for (int64_t i = 0; i < plan_.slots; ++i) {
    slots_[i].buffer = std::move(buffers()[i]);
    StartNextTile(&slots_[i]);
  }
}

void SampleSession::StartNextTile(Slot* slot) {
  slot->work.reset();
  if (next_tile_ == plan_.tiles) {
    slot->buffer.Reset();
    return;
  }
  const int64_t tile = next_tile_++;
  slot->first_path = plan_.first_path(tile);
  slot->paths = plan_.paths_of(tile);
  slot->delivered = 0;
  slot->order.clear();
  if (request_->order == TargetOrder::kRandomPerPath) {
    slot->order = DrawOrders(request_->seed, slot->first_path, slot->paths, targets());
  }
  DecodeSpec spec;
  spec.tile = {resident(), rows(), slot->paths, slot->order};
  spec.buffer = {slot->buffer.range().offset,
                 environment().backend->BufferBytes(config(), targets(), slot->paths)};
  spec.seed = request_->seed;
  spec.first_path = slot->first_path;
  slot->work = environment().backend->NewDecode(std::move(spec));
}

int64_t SampleSession::UnacknowledgedValues() const {
  return delivered_values_ - control().acknowledged;
}

// No tile runs while the reader is behind by the limit, and none runs so far ahead in one tick that
// the limit is exceeded by more than one step of one tile.
void SampleSession::AppendTiles(std::vector<Runnable>* runnable) {
  int64_t allowance = environment().max_unacknowledged_values - UnacknowledgedValues();
  int64_t running = 0;
  for (const Slot& slot : slots_) running += slot.work != nullptr ? 1 : 0;
  for (const Slot& slot : slots_) {
    if (slot.work == nullptr) continue;
    if (allowance <= 0) return;
    const int64_t share = allowance / running-- / slot.paths;
    const int64_t steps = std::clamp<int64_t>(share, 1, slot.work->steps_at_this_cost());
    allowance -= steps * slot.paths;
    runnable->push_back({slot.work.get(), steps, slot.work.get()});
  }
}

void SampleSession::CollectTiles(absl::Time now) {
  bool all_done = true;
  for (Slot& slot : slots_) {
    if (slot.work == nullptr) continue;
    if (slot.work->steps_done() > slot.delivered) {
      if (delivered_values_ == 0) {
        NoteFirstStep(now);
        environment().metrics->TimeToFirstStep(now - arrival());
      }
      observer_->OnBlock(TakeBlock(&slot));
    }
    if (slot.work->done()) StartNextTile(&slot);
    all_done = all_done && slot.work == nullptr;
  }
  if (all_done) Complete();
}

SampleBlock SampleSession::TakeBlock(Slot* slot) {
  const int64_t paths = slot->paths;
  SampleBlock block;
  block.first_path = slot->first_path;
  block.paths = paths;
  block.first_step = slot->delivered;
  block.steps = slot->work->steps_done() - slot->delivered;
  const int64_t count = paths * block.steps;
  block.values.resize(count);
  if (request_->want_log_densities) block.log_densities.resize(count);
  if (!slot->order.empty()) block.targets.resize(count);

  const absl::Span<const float> values = slot->work->values();                 // [T, paths]
  const absl::Span<const double> log_densities = slot->work->log_densities();  // [T, paths]
  const FeatureTransform& transform = context().transform;
  const double log_scale = std::log(transform.y_std());
  for (int64_t path = 0; path < paths; ++path) {
    for (int64_t i = 0; i < block.steps; ++i) {
      const int64_t step = block.first_step + i;
      const int64_t out = path * block.steps + i;
      block.values[out] = transform.ToUser(values[step * paths + path]);
      if (request_->want_log_densities) {
        block.log_densities[out] = log_densities[step * paths + path] - log_scale;
      }
      if (!slot->order.empty()) block.targets[out] = slot->order[path * targets() + step];
    }
  }
  slot->delivered += block.steps;
  delivered_values_ += count;
  environment().metrics->PathSteps(count);
  return block;
}

void SampleSession::ReleaseResources() {
  slots_.clear();
  Session::ReleaseResources();
}

void SampleSession::Deliver(absl::Status status, absl::Time now) {
  observer_->OnDone(status, {request_->seed, TimingsAt(now)});
}

}  // namespace chorale
