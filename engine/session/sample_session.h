// A request for joint sample paths.
#ifndef CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_
#define CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/api/call.h"
#include "engine/session/draw_session.h"
#include "engine/session/total_weights.h"

namespace chorale {

// Passes the values of each tick, or whole paths, to the observer, and stops drawing while it has
// not acknowledged too many of them. Values of paths that are not complete were not passed to it,
// so it cannot acknowledge them and they do not count. The last value of a path whose total is
// known is replaced before it is passed on (engine/session/known_total.h).
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
  void Start() override;
  void AppendTiles(std::vector<Slice>* slices) override;
  // The mixtures of the last values are read when their paths end.
  int64_t FirstMixture(int64_t positions) const override {
    return request_->known_totals.has_value() ? positions - 1 : TileSpec::kNoMixtures;
  }
  void EndPaths(const DrawSlot& slot, SampleBlock* block) override;
  void TakeBlock(SampleBlock block) override;
  void EndDraws() override { Complete(); }
  void Deliver(absl::Status status, absl::Time now) override;

 private:
  int64_t UnacknowledgedValues() const;

  LastValue LastValueOf(const DrawSlot& slot, int64_t p, const MixtureSpan& mixture,
                        const KnownTotal& total) const;

  const std::shared_ptr<const SampleRequest> request_;
  const std::shared_ptr<SampleObserver> observer_;
  std::optional<TotalWeights> weights_;  // since Start; none without known totals
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_
