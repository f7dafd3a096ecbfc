// A request for joint sample paths that is validated and not run.
#ifndef CHORALE_ENGINE_SESSION_SAMPLE_ESTIMATE_SESSION_H_
#define CHORALE_ENGINE_SESSION_SAMPLE_ESTIMATE_SESSION_H_

#include <memory>

#include "engine/api/call.h"
#include "engine/session/session.h"

namespace chorale {

// Ends with a summary that has an estimate as soon as the request has been validated against its
// context. Thread contract: see Session.
class SampleEstimateSession : public Session {
 public:
  // REQUIRES: the request has a seed.
  SampleEstimateSession(CallStart start, const SessionEnvironment* environment,
                        std::shared_ptr<const SampleRequest> request,
                        std::shared_ptr<SampleObserver> observer);
  bool only_validates() const override { return true; }

 protected:
  TilePlan MakePlan() override;
  void Deliver(absl::Status status, absl::Time now) override;

 private:
  Estimate EstimateWork() const;

  const std::shared_ptr<const SampleRequest> request_;
  const std::shared_ptr<SampleObserver> observer_;
};

// Returns an observer that passes the summary of such a session to `done`.
std::shared_ptr<SampleObserver> EstimateReceiver(Callback<SummarizeResult> done);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_SAMPLE_ESTIMATE_SESSION_H_
