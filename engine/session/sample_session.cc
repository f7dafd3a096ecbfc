#include "engine/session/sample_session.h"

#include <algorithm>
#include <utility>

namespace chorale {

SampleSession::SampleSession(CallStart start, const SessionEnvironment* environment,
                             std::shared_ptr<const SampleRequest> request,
                             std::shared_ptr<SampleObserver> observer)
    : DrawSession(std::move(start), environment, request),
      seed_(*request->seed),
      first_path_(request->first_path),
      whole_paths_(request->whole_paths),
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
  if (whole_paths_) {
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

void SampleSession::TakeBlock(SampleBlock block) {
  if (block.path_indices.empty()) block.first_path += first_path_;
  for (int32_t& path : block.path_indices) path += static_cast<int32_t>(first_path_);
  observer_->OnBlock(std::move(block));
}

void SampleSession::Deliver(absl::Status status, absl::Time now) {
  SampleSummary summary;
  summary.seed = seed_;
  if (status.ok()) {
    Describe(now, &summary);
    summary.known_log_densities = TakeKnownLogDensities();
  }
  observer_->OnDone(status, summary);
}

}  // namespace chorale
