// A request to make a context resident.
#ifndef CHORALE_ENGINE_SESSION_WARM_SESSION_H_
#define CHORALE_ENGINE_SESSION_WARM_SESSION_H_

#include <memory>
#include <utility>

#include "engine/data/limits.h"
#include "engine/engine.h"
#include "engine/session/session.h"

namespace chorale {

// The request names the context; it has no targets.
// Thread contract: see Session.
class WarmSession : public Session {
 public:
  WarmSession(CallStart start, const SessionEnvironment* environment,
              const std::shared_ptr<const RequestBase>& /*request*/,
              Engine::Callback<ContextInfo> done)
      : Session(std::move(start), environment), done_(std::move(done)) {}

  static Preparation Prepare(const std::shared_ptr<const RequestBase>& request,
                             const Limits* limits, const Backend* backend);

 protected:
  void Deliver(absl::Status status, absl::Time now) override;
  bool ContextIsEnough() const override { return true; }

 private:
  const Engine::Callback<ContextInfo> done_;
};

// The same; the context then stays resident until it is deleted.
class WarmForGoodSession : public WarmSession {
 public:
  using WarmSession::WarmSession;
  void ReleaseResources() override;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_WARM_SESSION_H_
