// A request for joint sample paths.
#ifndef CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_
#define CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/api/call.h"
#include "engine/session/grouped_paths.h"
#include "engine/session/query_groups.h"
#include "engine/session/tiled_session.h"

namespace chorale {

struct SampleSlot : TileSlot<DecodeWork> {
  std::vector<int32_t> order;  // TileSpec::order
  int64_t known = 0;           // positions of known values
  int64_t delivered = 0;       // these positions, and those that the observer has received
};

// Draws several tiles at a time in their order, and passes the values of each tick to the observer.
// Known values are forced at the first positions, and not passed on.
//
// Thread contract: see Session.
class SampleSession : public TiledSession<SampleSlot> {
 public:
  // REQUIRES: the request has a seed.
  SampleSession(CallStart start, const SessionEnvironment* environment,
                std::shared_ptr<const SampleRequest> request,
                std::shared_ptr<SampleObserver> observer);
  bool WaitsForReader() const override;

 protected:
  std::vector<EqualPaths> PlanPaths() override;
  void StartTile(SampleSlot* slot, PoolRange buffer) override;
  void AppendTiles(std::vector<Slice>* slices) override;
  void CollectTiles(absl::Time now) override;
  void Deliver(absl::Status status, absl::Time now) override;

 private:
  void Start() override;
  std::vector<float> ForcedValues(const SampleSlot& slot) const;
  SampleBlock TakeBlock(SampleSlot* slot);
  void TakeKnownLogDensities(const SampleSlot& slot);
  int64_t UnacknowledgedValues() const;

  const std::shared_ptr<const SampleRequest> request_;
  const std::shared_ptr<SampleObserver> observer_;
  std::optional<QueryGroups> groups_;  // since PlanPaths
  std::optional<GroupedPaths> paths_;  // since PlanPaths
  uint64_t random_key_ = 0;
  int64_t delivered_values_ = 0;
  SampleSummary summary_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_
