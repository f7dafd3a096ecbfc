#include "engine/warm_session.h"

#include "engine/request_validation.h"

namespace chorale {

PrepareFunction WarmSession::Prepare(const Backend* backend) {
  return [backend](
             std::shared_ptr<const RegisteredContext> context) -> absl::StatusOr<PreparedRequest> {
    if (auto s = ValidateResidentBytes("name", context->resident_bytes, *backend); !s.ok()) {
      return s;
    }
    return PreparedRequest{std::move(context), FeatureMatrix()};
  };
}

void WarmSession::Deliver(absl::Status status, absl::Time now) {
  if (!status.ok()) {
    done_(std::move(status));
    return;
  }
  done_(ContextInfo{context().record, ContextState::kResident, context().resident_bytes});
}

}  // namespace chorale
