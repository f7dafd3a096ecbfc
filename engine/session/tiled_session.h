// A session that runs its paths, or the rows of a prediction, in tiles.
#ifndef CHORALE_ENGINE_SESSION_TILED_SESSION_H_
#define CHORALE_ENGINE_SESSION_TILED_SESSION_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "engine/session/session.h"
#include "engine/session/tile_plan.h"

namespace chorale {

// A slot, which holds one tile at a time. Sessions with more data per tile derive from it.
template <typename WorkType>
struct TileSlot {
  BufferPool::Lease buffer;        // empty if the backend needs none
  std::unique_ptr<WorkType> work;  // null if no tile is left for this slot
  PlannedTile tile;
};

// Starts the next tile in a slot as soon as the previous tile is done, so that memory does not grow
// with the number of paths. `SlotType` is a TileSlot or derived from it.
//
// Thread contract: see Session.
template <typename SlotType>
class TiledSession : public Session {
 public:
  RequestedWork Requested() const override {
    RequestedWork work{.kind = kind_};
    for (const TilePlan::EqualTiles& equal : plan().lengths) {
      work.flops += PathFlops(config(), context().record.shape().keys(), equal.length, kind_);
      work.values += equal.length.paths * equal.length.positions;
    }
    return work;
  }

  void ReleaseResources() override {
    slots_.clear();
    Session::ReleaseResources();
  }

 protected:
  TiledSession(CallStart start, const SessionEnvironment* environment, WorkKind kind)
      : Session(std::move(start), environment), kind_(kind) {}

  // Returns the paths of the whole request, which has been validated.
  virtual std::vector<EqualPaths> PlanPaths() = 0;
  // Creates the work for the tile of a slot, whose `tile` is set. `buffer` is the part of the
  // slot's buffer that a tile of this size uses.
  virtual void StartTile(SlotType* slot, PoolRange buffer) = 0;

  TilePlan MakePlan() override {
    return PlanTiles(*environment().backend, config(), {query_rows(), PlanPaths(), kind_},
                     environment().max_slices);
  }

  void Start() override {
    slots_.resize(plan().slots);
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (plan().slot_bytes > 0) slots_[i].buffer = std::move(buffers()[i]);
      StartNextTile(&slots_[i]);
    }
  }

  // Starts only the first `tiles` tiles. REQUIRES: Start was not called.
  void LimitTiles(int64_t tiles) { tile_limit_ = tiles; }
  // Starts further tiles: `tiles` in all. REQUIRES: AllTilesTaken, and LimitTiles was called.
  void RaiseTileLimit(int64_t tiles) {
    tile_limit_ = tiles;
    for (SlotType& slot : slots_) StartNextTile(&slot);
  }

  // Drops the work of the slot. Then starts the next tile in it, or frees its buffer if no tile is
  // left. At the limit of tiles, the slot waits.
  void StartNextTile(SlotType* slot) {
    slot->work.reset();
    if (next_tile_ == plan().tiles) {
      slot->buffer.Reset();
      return;
    }
    if (next_tile_ == tile_limit_) return;
    slot->tile = plan().tile(next_tile_++);
    StartTile(slot, {slot->buffer.range().offset,
                     TileBytes(*environment().backend, config(), slot->tile.positions,
                               slot->tile.paths, kind_)});
  }

  void AppendTiles(std::vector<Slice>* slices) override {
    for (const SlotType& slot : slots_) {
      if (slot.work == nullptr || slot.work->done()) continue;
      slices->push_back({slot.work.get(), slot.work->steps_at_this_cost()});
    }
  }

  // Returns true if all tiles, up to the limit, were started and their results taken.
  bool AllTilesTaken() const {
    return std::all_of(slots_.begin(), slots_.end(),
                       [](const SlotType& slot) { return slot.work == nullptr; });
  }

  std::vector<SlotType>& slots() { return slots_; }
  WorkKind kind() const { return kind_; }

 private:
  const WorkKind kind_;
  std::vector<SlotType> slots_;
  int64_t next_tile_ = 0;
  int64_t tile_limit_ = std::numeric_limits<int64_t>::max();
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_TILED_SESSION_H_
