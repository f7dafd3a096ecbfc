#include "engine/session/sample_estimate_session.h"

#include <cstdint>
#include <utility>

#include "engine/session/grouped_paths.h"
#include "engine/session/query_groups.h"
#include "engine/session/tile_plan.h"

namespace chorale {
namespace {

class EstimateObserver : public SampleObserver {
 public:
  explicit EstimateObserver(Callback<SummarizeResult> done) : done_(std::move(done)) {}
  void OnBlock(SampleBlock /*block*/) override {}
  void OnDone(const absl::Status& status, const SampleSummary& summary) override {
    if (!status.ok()) {
      done_(status);
      return;
    }
    SummarizeResult result;
    static_cast<SampleSummary&>(result) = summary;
    done_(std::move(result));
  }

 private:
  const Callback<SummarizeResult> done_;
};

}  // namespace

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

std::shared_ptr<SampleObserver> EstimateReceiver(Callback<SummarizeResult> done) {
  return std::make_shared<EstimateObserver>(std::move(done));
}

}  // namespace chorale
