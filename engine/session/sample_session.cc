#include "engine/session/sample_session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/session/grouped_paths.h"
#include "engine/session/mixture_results.h"

namespace chorale {

SampleSession::SampleSession(CallStart start, const SessionEnvironment* environment,
                             std::shared_ptr<const SampleRequest> request,
                             std::shared_ptr<SampleObserver> observer)
    : DrawSession(std::move(start), environment, request),
      request_(std::move(request)),
      observer_(std::move(observer)) {}

int64_t SampleSession::UnacknowledgedValues() const {
  return taken_values() - control().acknowledged;
}

bool SampleSession::WaitsForReader() const {
  return state() == State::kRunning &&
         UnacknowledgedValues() >= environment().max_unacknowledged_values;
}

// Appends no tile once the unacknowledged values have reached the limit. The steps of a tick exceed
// the limit by less than one step of one tile, or with whole paths by the values of the tiles.
void SampleSession::AppendTiles(std::vector<Slice>* slices) {
  if (request_->whole_paths) {
    if (!WaitsForReader()) DrawSession::AppendTiles(slices);
    return;
  }
  int64_t allowance = environment().max_unacknowledged_values - UnacknowledgedValues();
  int64_t running = 0;
  for (const DrawSlot& slot : slots()) running += slot.work != nullptr ? 1 : 0;
  for (const DrawSlot& slot : slots()) {
    if (slot.work == nullptr) continue;
    if (allowance <= 0) return;
    const int64_t share = allowance / running-- / slot.tile.paths;
    const int64_t steps = std::clamp<int64_t>(share, 1, slot.work->steps_at_this_cost());
    allowance -= steps * slot.tile.paths;
    slices->push_back({slot.work.get(), steps});
  }
}

void SampleSession::Start() {
  if (request_->known_totals.has_value()) weights_.emplace(request_->paths, groups().count());
  DrawSession::Start();
}

void SampleSession::EndPaths(const DrawSlot& slot, SampleBlock* block) {
  if (!weights_.has_value()) return;
  const int64_t position = slot.tile.positions - 1;
  const double log_scale = std::log(context().transform.y_std());
  for (int64_t p = 0; p < slot.tile.paths; ++p) {
    const GroupPath path = PathOf(slot, p);
    const KnownTotal total = TotalOf(*request_->known_totals, path.group);
    if (!total.is_known()) continue;
    const MixtureSpan mixture = slot.work->mixture(p, position);
    const LastValue last = LastValueOf(slot, p, mixture, total);
    weights_->Set(path.path, path.group, last);
    const int64_t at = (p + 1) * block->steps - 1;
    block->values[at] = last.value;
    if (block->log_densities.empty()) continue;
    const double model_y =
        (last.unsnapped - context().transform.y_mean()) / context().transform.y_std();
    block->log_densities[at] = kernels::MixtureLogDensity(ViewOf(mixture), model_y) - log_scale;
  }
}

LastValue SampleSession::LastValueOf(const DrawSlot& slot, int64_t p, const MixtureSpan& mixture,
                                     const KnownTotal& total) const {
  PartialSum others;
  for (int64_t i = 0; i + 1 < slot.tile.positions; ++i) others.Add(ValueAt(slot, p, i));
  GroupPath path = PathOf(slot, p);
  path.path += request_->first_path;
  const kernels::TruncatedDraw draw =
      kernels::DrawTruncated(random_key(), PathNumber(path, request_->sampling));
  return LastValueForTotal(total, others, mixture, context().transform, request_->snapping, draw);
}

void SampleSession::TakeBlock(SampleBlock block) {
  if (block.path_indices.empty()) block.first_path += request_->first_path;
  for (int32_t& path : block.path_indices) path += static_cast<int32_t>(request_->first_path);
  observer_->OnBlock(std::move(block));
}

void SampleSession::Deliver(absl::Status status, absl::Time now) {
  SampleSummary summary;
  summary.seed = *request_->seed;
  if (status.ok()) {
    Describe(now, &summary);
    summary.known_log_densities = TakeKnownLogDensities();
    if (weights_.has_value()) {
      summary.total_log_weights = weights_->LogWeights();
      summary.total_effective_sample_sizes =
          EffectiveSampleSizes(summary.total_log_weights, groups().count());
    }
  }
  observer_->OnDone(status, summary);
}

}  // namespace chorale
