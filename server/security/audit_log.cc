#include "server/security/audit_log.h"

#include <string>

namespace chorale {

void AuditCall(Method method, absl::StatusCode code, const Caller& caller,
               const std::vector<LogField>& about_call) {
  const bool refused =
      code == absl::StatusCode::kUnauthenticated || code == absl::StatusCode::kPermissionDenied;
  const bool changes = method == Method::kRegisterContext || method == Method::kCreateContext ||
                       method == Method::kAppendRows || method == Method::kDeleteContext;
  if (!refused && !changes) return;
  std::vector<LogField> fields = {{"method", std::string(MethodName(method))},
                                  {"code", absl::StatusCodeToString(code)},
                                  {"tenant", caller.tenant},
                                  {"caller", caller.name}};
  if (caller.tenant != kNoTenant) fields.push_back({"role", std::string(RoleName(caller.role))});
  fields.push_back({"peer", caller.peer_host});
  fields.insert(fields.end(), about_call.begin(), about_call.end());
  LogEvent(refused ? spdlog::level::warn : spdlog::level::info, "audit", fields);
}

}  // namespace chorale
