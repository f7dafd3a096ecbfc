#include "server/security/caller.h"

namespace chorale {

std::optional<Role> RoleOfName(absl::string_view name) {
  for (size_t role = 0; role < kRoleNames.size(); ++role) {
    if (name == kRoleNames[role]) return static_cast<Role>(role);
  }
  return std::nullopt;
}

Role RoleFor(Method method) {
  switch (method) {
    case Method::kGetContext:
    case Method::kListContexts:
    case Method::kWarmContext:
    case Method::kPredict:
    case Method::kSample:
    case Method::kSummarize:
    case Method::kLogDensity:
    case Method::kGetModel:
    case Method::kListModels:
    case Method::kGetServerInfo:
      return Role::kRead;
    case Method::kRegisterContext:
    case Method::kCreateContext:
    case Method::kAppendRows:
    case Method::kDeleteContext:
      return Role::kRegister;
  }
  return Role::kAdmin;
}

}  // namespace chorale
