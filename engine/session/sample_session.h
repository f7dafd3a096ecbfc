// A request for joint sample paths.
#ifndef CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_
#define CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/api/call.h"
#include "engine/session/draw_session.h"

namespace chorale {

// Passes the values of each tick to the observer, and draws no more than it acknowledges.
//
// Thread contract: see Session.
class SampleSession : public DrawSession {
 public:
  // REQUIRES: the request has a seed.
  SampleSession(CallStart start, const SessionEnvironment* environment,
                std::shared_ptr<const SampleRequest> request,
                std::shared_ptr<SampleObserver> observer);
  bool WaitsForReader() const override;

 protected:
  void AppendTiles(std::vector<Slice>* slices) override;
  void TakeBlock(SampleBlock block) override { observer_->OnBlock(std::move(block)); }
  void EndDraws() override { Complete(); }
  void Deliver(absl::Status status, absl::Time now) override;

 private:
  int64_t UnacknowledgedValues() const;

  const uint64_t seed_;
  const std::shared_ptr<SampleObserver> observer_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_
