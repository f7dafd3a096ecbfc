// Lines about who changed what, and who was refused.
#ifndef CHORALE_SERVER_SECURITY_AUDIT_LOG_H_
#define CHORALE_SERVER_SECURITY_AUDIT_LOG_H_

#include <vector>

#include "absl/status/status.h"
#include "server/security/caller.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/method.h"

namespace chorale {

// Logs a line "audit" for a call that has ended: each RegisterContext and DeleteContext, whatever
// its outcome, and each call that was refused because of who made it. The line is information, but
// a warning for a refusal. It has method, code, tenant, caller, role, peer and `about_call` (ids,
// context, outcome), never a token.
//
// Thread-safe; does not block.
void AuditCall(Method method, absl::StatusCode code, const Caller& caller,
               const std::vector<LogField>& about_call);

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_AUDIT_LOG_H_
