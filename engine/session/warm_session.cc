#include "engine/session/warm_session.h"

#include "engine/context/context_bytes.h"

namespace chorale {

Preparation WarmSession::Prepare(const std::shared_ptr<const WarmRequest>& /*request*/,
                                 const Limits* /*limits*/, const Backend* backend) {
  Preparation preparation;
  preparation.check = [backend](const ContextRecord& record, const ModelInfo& model) {
    return ValidateContextBytes("name", model.config, record.rows, *backend,
                                backend->context_pool_bytes());
  };
  preparation.finish = [](std::shared_ptr<const RegisteredContext> context) {
    return PreparedRequest{std::move(context), FeatureMatrix()};
  };
  return preparation;
}

void WarmSession::ReleaseResources() {
  if (residency_ == Residency::kPinned && pin() && pin().resident() != nullptr) StayResident();
  Session::ReleaseResources();
}

void WarmSession::Deliver(absl::Status status, absl::Time now) {
  if (!status.ok()) {
    done_(std::move(status));
    return;
  }
  done_(ContextInfo{context().record, ContextState::kResident, context().resident_bytes});
}

}  // namespace chorale
