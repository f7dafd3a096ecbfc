// A request for joint log-densities.
#ifndef CHORALE_ENGINE_SESSION_DENSITY_SESSION_H_
#define CHORALE_ENGINE_SESSION_DENSITY_SESSION_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/api/call.h"
#include "engine/session/path_rows.h"
#include "engine/session/tiled_session.h"

namespace chorale {

// Each vector in each order is a path: path b * R + r is vector b in its order r. Known values come
// first on each path.
//
// Thread contract: see Session.
class DensitySession : public TiledSession<TileSlot<DensityWork>> {
 public:
  // REQUIRES: the request has a seed.
  DensitySession(CallStart start, const SessionEnvironment* environment,
                 std::shared_ptr<const LogDensityRequest> request, Callback<LogDensityResult> done);

 protected:
  int64_t paths() const override { return request_->vectors * orders_per_vector(); }
  void Start() override;
  void StartTile(TileSlot<DensityWork>* slot, PoolRange buffer) override;
  void CollectTiles(absl::Time now) override;
  void Deliver(absl::Status status, absl::Time now) override;

 private:
  int64_t orders_per_vector() const { return std::max<int64_t>(request_->random_orders, 1); }  // R

  double ValueOf(int64_t path, int64_t position, int32_t row) const;
  std::vector<float> ModelValues(const TileSlot<DensityWork>& slot,
                                 const std::vector<int32_t>& order) const;
  void TakeTile(const TileSlot<DensityWork>& slot);
  void Average();

  const std::shared_ptr<const LogDensityRequest> request_;
  const Callback<LogDensityResult> done_;
  std::optional<PathRows> path_rows_;  // since Start
  uint64_t random_key_ = 0;
  std::vector<double> path_log_density_;  // [B * R], user's units
  LogDensityResult result_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_DENSITY_SESSION_H_
