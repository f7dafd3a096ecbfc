// Logs changes of contexts, and rejected callers.
#ifndef CHORALE_SERVER_SECURITY_AUDIT_LOG_H_
#define CHORALE_SERVER_SECURITY_AUDIT_LOG_H_

#include <vector>

#include "absl/status/status.h"
#include "server/security/caller.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/method.h"

namespace chorale {

// Logs the event "audit" for a call that has ended: each RegisterContext, CreateContext, AppendRows
// and DeleteContext, whatever its outcome, and each call that was rejected because of its caller.
// The event is a warning for a rejection, and otherwise information. It contains method, code,
// tenant, caller, role, peer and `about_call` (ids, context, outcome), never a token.
//
// Thread-safe; does not block.
void AuditCall(Method method, absl::StatusCode code, const Caller& caller,
               const std::vector<LogField>& about_call);

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_AUDIT_LOG_H_
