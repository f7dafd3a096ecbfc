#include "engine/session/warm_session.h"

#include <utility>

namespace chorale {

void WarmSession::ReleaseResources() {
  if (residency_ == Residency::kPinned && pin() && pin().resident() != nullptr) StayResident();
  Session::ReleaseResources();
}

void WarmSession::Deliver(absl::Status status, absl::Time now) {
  if (!status.ok()) {
    done_(std::move(status));
    return;
  }
  done_(ContextInfo{context().CurrentRecord(), ContextState::kResident, context().resident_bytes});
}

}  // namespace chorale
