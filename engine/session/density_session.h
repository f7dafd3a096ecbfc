// A request for joint log-densities.
#ifndef CHORALE_ENGINE_SESSION_DENSITY_SESSION_H_
#define CHORALE_ENGINE_SESSION_DENSITY_SESSION_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/data/limits.h"
#include "engine/engine.h"
#include "engine/session/session.h"

namespace chorale {

// Every vector in every order is a path; path b * R + r is vector b in its order r. Tiles of paths
// are made as others finish, so that memory does not grow with their number.
// Thread contract: see Session.
class DensitySession : public Session {
 public:
  // `request->seed` is not 0 when there are random orders.
  DensitySession(CallStart start, const SessionEnvironment* environment,
                 std::shared_ptr<const LogDensityRequest> request,
                 Engine::Callback<LogDensityResult> done);

  static Preparation Prepare(std::shared_ptr<const LogDensityRequest> request, const Limits* limits,
                             const Backend* backend);

  TilePlan Plan() const override;
  void ReleaseResources() override;

 protected:
  void Deliver(absl::Status status, absl::Time now) override;
  void Start() override;
  void AppendTiles(std::vector<Runnable>* runnable) override;
  void CollectTiles(absl::Time now) override;

 private:
  // A place for one tile at a time.
  struct Slot {
    BufferPool::Lease buffer;
    std::unique_ptr<DensityWork> one_pass;     // exactly one of these two,
    std::unique_ptr<DecodeWork> step_by_step;  // or none when there is no tile left
    int64_t first_path = 0;
    int64_t paths = 0;
  };

  int64_t orders_per_vector() const { return std::max<int64_t>(request_->random_orders, 1); }  // R
  bool step_by_step() const { return request_->method == DensityMethod::kStepByStep; }
  TileWork tile_work() const { return step_by_step() ? TileWork::kDecode : TileWork::kDensity; }

  void StartNextTile(Slot* slot);
  std::vector<float> ModelValues(const Slot& slot, const std::vector<int32_t>& order) const;
  void TakeTile(const Slot& slot);
  void Average();

  const std::shared_ptr<const LogDensityRequest> request_;
  const Engine::Callback<LogDensityResult> done_;
  TilePlan plan_;
  std::vector<Slot> slots_;
  int64_t next_tile_ = 0;
  std::vector<double> path_log_density_;  // [B * R], user's units
  LogDensityResult result_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_DENSITY_SESSION_H_
