// A request for joint sample paths.
#ifndef CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_
#define CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/data/limits.h"
#include "engine/engine.h"
#include "engine/session/session.h"

namespace chorale {

// Draws tile after tile, some of them at a time, and hands every tick's values to the observer.
// Thread contract: see Session.
class SampleSession : public Session {
 public:
  // `request->seed` is not 0.
  SampleSession(CallStart start, const SessionEnvironment* environment,
                std::shared_ptr<const SampleRequest> request,
                std::shared_ptr<SampleObserver> observer);

  static Preparation Prepare(std::shared_ptr<const SampleRequest> request, const Limits* limits,
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
    std::unique_ptr<DecodeWork> work;  // null when there is no tile left for it
    std::vector<int32_t> order;        // [paths, T] or empty
    int64_t first_path = 0;
    int64_t paths = 0;
    int64_t delivered = 0;  // steps
  };

  void StartNextTile(Slot* slot);
  SampleBlock TakeBlock(Slot* slot);
  int64_t UnacknowledgedValues() const;

  const std::shared_ptr<const SampleRequest> request_;
  const std::shared_ptr<SampleObserver> observer_;
  TilePlan plan_;
  std::vector<Slot> slots_;
  int64_t next_tile_ = 0;
  int64_t delivered_values_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_
