// The common part of requests that draw joint sample paths.
#ifndef CHORALE_ENGINE_SESSION_DRAW_SESSION_H_
#define CHORALE_ENGINE_SESSION_DRAW_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/api/request.h"
#include "engine/session/grouped_paths.h"
#include "engine/session/query_groups.h"
#include "engine/session/tiled_session.h"

namespace chorale {

struct DrawSlot : TileSlot<DecodeWork> {
  std::vector<int32_t> order;  // TileSpec::order
  int64_t known = 0;           // positions of known values
  int64_t taken = 0;           // these positions, and those of blocks that were taken
};

// Draws several tiles at a time in their order, and takes the values of each tick as blocks, or
// with SampleRequest::whole_paths the values of each tile when it is done. Known values are forced
// at the first positions, and are not in blocks.
//
// Thread contract: see Session.
class DrawSession : public TiledSession<DrawSlot> {
 protected:
  // REQUIRES: the request has a seed.
  DrawSession(CallStart start, const SessionEnvironment* environment,
              std::shared_ptr<const SampleRequest> request);

  // Takes values of a tile. In the block, paths count from 0.
  virtual void TakeBlock(SampleBlock block) = 0;
  // TileSpec::first_mixture of paths with this number of positions.
  virtual int64_t FirstMixture(int64_t positions) const { return TileSpec::kNoMixtures; }
  // Takes mixtures of the next block of a tile: of its positions from slot.taken to the steps that
  // are done, those that are kept.
  virtual void TakeMixtures(const DrawSlot& slot) {}
  // Called with the last block of a tile before it is taken. May change the values of its last
  // step, on which no other value depends.
  virtual void EndPaths(const DrawSlot& slot, SampleBlock* block) {}
  // Called when all blocks, up to the limit of tiles, were taken.
  virtual void EndDraws() = 0;
  // The numbers of paths, ascending, at which the session draws no further ones before it raises
  // the limit of tiles; the last one is SampleRequest::paths.
  virtual std::vector<int64_t> Rounds() const { return {request_->paths}; }

  std::vector<EqualPaths> PlanPaths() override;
  void Start() override;
  void StartTile(DrawSlot* slot, PoolRange buffer) override;
  void CollectTiles(absl::Time now) override;

  // Returns the number of tiles of the first rounds. REQUIRES: SetContext was called.
  int64_t TilesOfRounds(int64_t rounds) const {
    return plan().TilesOf(rounds * paths_->lengths_per_round());
  }
  // REQUIRES: SetContext was called.
  const QueryGroups& groups() const { return *groups_; }
  // REQUIRES: SetContext was called.
  GroupPath PathOf(const DrawSlot& slot, int64_t p) const {
    return paths_->At(slot.tile.first_path + p);
  }
  static int32_t RowOf(const DrawSlot& slot, int64_t p, int64_t position) {
    return slot.order.empty() ? static_cast<int32_t>(position)
                              : slot.order[p * slot.tile.positions + position];
  }
  // The value at a position of a path, as blocks contain it, or as it is known.
  double ValueAt(const DrawSlot& slot, int64_t p, int64_t position) const;
  // Of the random numbers of the request.
  uint64_t random_key() const { return random_key_; }
  int64_t taken_values() const { return taken_values_; }
  // Returns the log-densities of the known values; complete when all blocks were taken.
  std::vector<double> TakeKnownLogDensities() { return std::move(known_log_densities_); }

 private:
  std::vector<float> ForcedValues(const DrawSlot& slot) const;
  void CollectTile(DrawSlot* slot, absl::Time now);
  SampleBlock NextBlock(DrawSlot* slot);
  void NoteKnownLogDensities(const DrawSlot& slot);

  const std::shared_ptr<const SampleRequest> request_;
  std::optional<QueryGroups> groups_;  // since PlanPaths
  std::optional<GroupedPaths> paths_;  // since PlanPaths
  uint64_t random_key_ = 0;
  bool has_drawn_ = false;
  int64_t taken_values_ = 0;
  std::vector<double> known_log_densities_;  // [sets, G]
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_DRAW_SESSION_H_
