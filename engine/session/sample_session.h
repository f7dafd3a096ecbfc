// A request for joint sample paths.
#ifndef CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_
#define CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/api/call.h"
#include "engine/session/draw_session.h"

namespace chorale {

// Passes the values of each tick, or whole paths, to the observer, and stops drawing while it has
// not acknowledged too many of them. Values of paths that are not complete were not passed to it,
// so it cannot acknowledge them and they do not count.
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
  void TakeBlock(SampleBlock block) override;
  void EndDraws() override { Complete(); }
  void Deliver(absl::Status status, absl::Time now) override;

 private:
  int64_t UnacknowledgedValues() const;

  const uint64_t seed_;
  const int64_t first_path_;
  const bool whole_paths_;
  const std::shared_ptr<SampleObserver> observer_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_SAMPLE_SESSION_H_
