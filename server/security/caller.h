// The caller of a method, and its permissions.
#ifndef CHORALE_SERVER_SECURITY_CALLER_H_
#define CHORALE_SERVER_SECURITY_CALLER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/telemetry/method.h"

namespace chorale {

// Each role includes the previous roles.
enum class Role {
  kRead,      // all calls except the ones below: registered contexts, and results from them
  kRegister,  // RegisterContext, CreateContext, AppendRows, DeleteContext, and WarmContext with
              // encode_anew, of the tenant's own contexts
  kAdmin,     // every call of the tenant, including calls that later versions add
};

inline constexpr std::array<const char*, 3> kRoleNames = {"read", "register", "admin"};
inline const char* RoleName(Role role) { return kRoleNames[static_cast<int>(role)]; }
std::optional<Role> RoleOfName(absl::string_view name);

// The lowest role that may call the method.
Role RoleFor(Method method);

// The quotas of a tenant. 0: no limit except the server's.
struct TenantQuotas {
  int64_t contexts = 0;
  int64_t dataset_bytes = 0;   // of all of its datasets in the store
  int64_t resident_bytes = 0;  // of the context pool
  int64_t concurrent_calls = 0;
  int64_t values_per_second = 0;  // drawn, with a density, or rows predicted

  bool operator==(const TenantQuotas&) const = default;
};

struct TenantPolicy {
  int64_t weight = 1;  // its share of a busy server, relative to other tenants
  TenantQuotas quotas;

  bool operator==(const TenantPolicy&) const = default;
};

// The tenant if callers are not authenticated. A credential may belong to a tenant of this name as
// well.
inline constexpr char kDefaultTenant[] = "default";
// The tenant in metrics and logs of a call whose caller is unknown. No tenant can have this name.
inline constexpr char kNoTenant[] = "-";

// Only verified data: no field comes from a header that any client can set.
struct Caller {
  std::string tenant = kDefaultTenant;
  std::string name;  // of the token, or of the certificate; empty without one
  Role role = Role::kAdmin;
  TenantPolicy policy;
  std::string peer_host;  // the other end of the connection, which may be a proxy

  // Authenticated by a token or a certificate.
  bool is_authenticated() const { return !name.empty(); }
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_CALLER_H_
