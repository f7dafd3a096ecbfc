// A request to make a context resident.
#ifndef CHORALE_ENGINE_SESSION_WARM_SESSION_H_
#define CHORALE_ENGINE_SESSION_WARM_SESSION_H_

#include <memory>
#include <utility>

#include "engine/api/call.h"
#include "engine/session/session.h"

namespace chorale {

// Thread contract: see Session.
class WarmSession : public Session {
 public:
  WarmSession(CallStart start, const SessionEnvironment* environment,
              const std::shared_ptr<const WarmRequest>& request, Callback<ContextInfo> done)
      : Session(std::move(start), environment),
        residency_(request->residency),
        encodes_anew_(request->encode_anew),
        done_(std::move(done)) {}
  bool encodes_anew() const override { return encodes_anew_; }
  void ReleaseResources() override;

 protected:
  void Deliver(absl::Status status, absl::Time now) override;
  bool ContextIsEnough() const override { return true; }

 private:
  const Residency residency_;
  const bool encodes_anew_;
  const Callback<ContextInfo> done_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_WARM_SESSION_H_
