#include "engine/session/sample_estimate_session.h"

#include <cstdint>
#include <utility>

#include "engine/backend/flop_model.h"
#include "engine/session/tile_plan.h"

namespace chorale {

SampleEstimateSession::SampleEstimateSession(CallStart start, const SessionEnvironment* environment,
                                             std::shared_ptr<const SampleRequest> request,
                                             std::shared_ptr<SampleObserver> observer)
    : Session(std::move(start), environment),
      request_(std::move(request)),
      observer_(std::move(observer)) {}

Estimate SampleEstimateSession::EstimateWork() const {
  const TilePlan plan = PlanTiles(*environment().backend, config(),
                                  {query_rows(), query_rows(), request_->paths, WorkKind::kDecode},
                                  environment().max_slices);
  Estimate estimate;
  for (const int64_t bytes : plan.ranges()) estimate.device_bytes += bytes;
  estimate.duration = context().model->decode_rate.TimeOf(
      DecodeFlops(config(), request_->paths, context().record.shape().keys(), 0, query_rows()));
  return estimate;
}

void SampleEstimateSession::Deliver(absl::Status status, absl::Time now) {
  SampleSummary summary;
  summary.seed = *request_->seed;
  if (status.ok()) {
    Describe(now, &summary);
    summary.estimate = EstimateWork();
  }
  observer_->OnDone(status, summary);
}

}  // namespace chorale
