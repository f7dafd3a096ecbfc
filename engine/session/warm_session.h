// A request to make a context resident.
#ifndef CHORALE_ENGINE_SESSION_WARM_SESSION_H_
#define CHORALE_ENGINE_SESSION_WARM_SESSION_H_

#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/session/session.h"

namespace chorale {

// Thread contract: see Session.
class WarmSession : public Session {
 public:
  WarmSession(CallStart start, const SessionEnvironment* environment,
              Engine::Callback<ContextInfo> done)
      : Session(std::move(start), environment), done_(std::move(done)) {}

  static Preparation Prepare(const Backend* backend);

 protected:
  void Deliver(absl::Status status, absl::Time now) override;
  bool ContextIsEnough() const override { return true; }
  void Start() override {}
  void AppendTiles(std::vector<Runnable>* runnable) override {}
  void CollectTiles(absl::Time now) override {}

 private:
  const Engine::Callback<ContextInfo> done_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_WARM_SESSION_H_
