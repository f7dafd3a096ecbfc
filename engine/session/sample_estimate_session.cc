#include "engine/session/sample_estimate_session.h"

#include <cstdint>
#include <utility>

#include "engine/session/grouped_paths.h"
#include "engine/session/query_groups.h"
#include "engine/session/tile_plan.h"

namespace chorale {

SampleEstimateSession::SampleEstimateSession(CallStart start, const SessionEnvironment* environment,
                                             std::shared_ptr<const SampleRequest> request,
                                             std::shared_ptr<SampleObserver> observer)
    : Session(std::move(start), environment),
      request_(std::move(request)),
      observer_(std::move(observer)) {}

TilePlan SampleEstimateSession::MakePlan() {
  const QueryGroups groups(*request_);
  return PlanTiles(
      *environment().backend, config(),
      {query_rows(), GroupedPaths(&groups, request_->paths).lengths(), WorkKind::kDecode},
      environment().max_slices);
}

Estimate SampleEstimateSession::EstimateWork() const {
  Estimate estimate;
  for (const int64_t bytes : plan().ranges()) estimate.device_bytes += bytes;
  double flops = 0;
  for (const TilePlan::EqualTiles& equal : plan().lengths) {
    flops += PathFlops(config(), context().record.shape().keys(), equal.length, WorkKind::kDecode);
  }
  estimate.duration = context().model->decode_rate.TimeOf(flops);
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
