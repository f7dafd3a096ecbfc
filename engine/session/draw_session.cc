#include "engine/session/draw_session.h"

#include <cmath>
#include <utility>

#include "engine/session/mixture_results.h"
#include "engine/session/random_key.h"

namespace chorale {

DrawSession::DrawSession(CallStart start, const SessionEnvironment* environment,
                         std::shared_ptr<const SampleRequest> request)
    : TiledSession(std::move(start), environment, WorkKind::kDecode),
      request_(std::move(request)) {}

std::vector<EqualPaths> DrawSession::PlanPaths() {
  groups_.emplace(*request_);
  paths_.emplace(&*groups_, Rounds(), request_->first_path);
  return paths_->lengths();
}

void DrawSession::Start() {
  random_key_ = RandomKey(*request_->seed, source());
  known_log_densities_.resize(request_->known.sets() * groups_->count());
  TiledSession::Start();
}

void DrawSession::StartTile(DrawSlot* slot, PoolRange buffer) {
  const auto& [first_path, paths, positions] = slot->tile;
  slot->known = groups_->known(paths_->At(first_path).group);
  slot->taken = slot->known;
  slot->order = request_->order == RowOrder::kRandomPerPath
                    ? paths_->RandomOrders(random_key_, first_path, paths)
                    : paths_->GivenOrder(first_path, paths);
  DecodeSpec spec;
  spec.tile = {resident(), rows(), paths, slot->order, FirstMixture(positions)};
  spec.buffer = buffer;
  spec.seed = random_key_;
  spec.path_numbers = paths_->Numbers(first_path, paths, request_->sampling);
  spec.forced_values = ForcedValues(*slot);
  slot->work = environment().backend->NewDecode(std::move(spec));
}

// Returns DecodeSpec::forced_values of the tile, [N, paths].
std::vector<float> DrawSession::ForcedValues(const DrawSlot& slot) const {
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

void DrawSession::CollectTiles(absl::Time now) {
  const int64_t earlier = taken_values_;
  for (DrawSlot& slot : slots()) {
    if (slot.work != nullptr) CollectTile(&slot, now);
  }
  if (taken_values_ > earlier) ReportValues(kind(), taken_values_ - earlier);
  if (AllTilesTaken()) EndDraws();
}

void DrawSession::CollectTile(DrawSlot* slot, absl::Time now) {
  const bool done = slot->work->done();
  if (slot->work->steps_done() > slot->taken) {
    if (!std::exchange(has_drawn_, true)) {
      NoteFirstStep(now);
      environment().metrics->TimeToFirstStep(now - arrival());
    }
    if (done || !request_->whole_paths) {
      TakeMixtures(*slot);
      SampleBlock block = NextBlock(slot);
      if (done) EndPaths(*slot, &block);
      TakeBlock(std::move(block));
    }
  }
  if (!done) return;
  NoteKnownLogDensities(*slot);
  StartNextTile(slot);
}

double DrawSession::ValueAt(const DrawSlot& slot, int64_t p, int64_t position) const {
  if (position < slot.known) {
    const auto [group, path] = PathOf(slot, p);
    return groups_->KnownValue(group, path, position);
  }
  const FeatureTransform& transform = context().transform;
  const double value = transform.ToUser(slot.work->values()[position * slot.tile.paths + p]);
  return request_->snapping == Snapping::kOn ? transform.target_support().Snap(value) : value;
}

SampleBlock DrawSession::NextBlock(DrawSlot* slot) {
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
  block.first_step = slot->taken - slot->known;
  block.steps = slot->work->steps_done() - slot->taken;
  const int64_t count = paths * block.steps;
  block.values.resize(count);
  if (request_->want_log_densities) block.log_densities.resize(count);
  const bool names_rows =
      request_->order == RowOrder::kRandomPerPath || !request_->group_sizes.empty();
  if (names_rows) block.query_rows.resize(count);

  const absl::Span<const double> log_densities = slot->work->log_densities();  // [P, paths]
  const double log_scale = std::log(context().transform.y_std());
  for (int64_t path = 0; path < paths; ++path) {
    for (int64_t i = 0; i < block.steps; ++i) {
      const int64_t position = slot->taken + i;
      const int64_t out = path * block.steps + i;
      block.values[out] = ValueAt(*slot, path, position);
      if (request_->want_log_densities) {
        block.log_densities[out] = log_densities[position * paths + path] - log_scale;
      }
      if (names_rows) block.query_rows[out] = RowOf(*slot, path, position);
    }
  }
  slot->taken += block.steps;
  taken_values_ += count;
  return block;
}

void DrawSession::NoteKnownLogDensities(const DrawSlot& slot) {
  const auto& [first_path, paths, positions] = slot.tile;
  for (int64_t p = 0; p < paths; ++p) {
    const auto [group, path] = paths_->At(first_path + p);
    if (path >= request_->known.sets()) continue;  // all paths share one set
    known_log_densities_[path * groups_->count() + group] =
        KnownLogDensity(slot.work->log_densities(), paths, p, slot.known, context().transform);
  }
}

}  // namespace chorale
