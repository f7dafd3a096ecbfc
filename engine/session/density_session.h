// A request for joint log-densities.
#ifndef CHORALE_ENGINE_SESSION_DENSITY_SESSION_H_
#define CHORALE_ENGINE_SESSION_DENSITY_SESSION_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/api/call.h"
#include "engine/session/grouped_paths.h"
#include "engine/session/query_groups.h"
#include "engine/session/tiled_session.h"

namespace chorale {

// Each vector in each order is a path of each group: path b * R + r is vector b in its order r.
// Known values come first on each path.
//
// Thread contract: see Session.
class DensitySession : public TiledSession<TileSlot<DensityWork>> {
 public:
  // REQUIRES: the request has a seed.
  DensitySession(CallStart start, const SessionEnvironment* environment,
                 std::shared_ptr<const LogDensityRequest> request, Callback<LogDensityResult> done);

 protected:
  std::vector<EqualPaths> PlanPaths() override;
  void Start() override;
  void StartTile(TileSlot<DensityWork>* slot, PoolRange buffer) override;
  void CollectTiles(absl::Time now) override;
  void Deliver(absl::Status status, absl::Time now) override;

 private:
  int64_t orders_per_vector() const { return std::max<int64_t>(request_->random_orders, 1); }  // R

  std::vector<float> ModelValues(const PlannedTile& tile, const std::vector<int32_t>& order) const;
  void TakeTile(const TileSlot<DensityWork>& slot);
  void Average();

  const std::shared_ptr<const LogDensityRequest> request_;
  const Callback<LogDensityResult> done_;
  std::optional<QueryGroups> groups_;  // since PlanPaths
  std::optional<GroupedPaths> paths_;  // since PlanPaths
  uint64_t random_key_ = 0;
  std::vector<double> path_log_density_;  // [B, G, R], user's units
  LogDensityResult result_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_DENSITY_SESSION_H_
