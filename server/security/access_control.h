// Authenticates and authorises callers.
#ifndef CHORALE_SERVER_SECURITY_ACCESS_CONTROL_H_
#define CHORALE_SERVER_SECURITY_ACCESS_CONTROL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/security/caller.h"
#include "server/security/presented_credentials.h"
#include "server/security/quotas.h"
#include "server/security/security_options.h"
#include "server/security/tenant_file.h"
#include "server/security/tls_identity.h"
#include "server/security/token_file.h"
#include "server/telemetry/line_limit.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/method.h"

namespace chorale {

// A caller is identified by a bearer token, or otherwise by the certificate of its connection. An
// invalid token is rejected regardless of the certificate, so that a mistake is noticed. Without a
// token file and client authorities, every caller is the tenant "default" with all roles.
//
// Tokens, tenants and roles are looked up for each call, so a reload also applies to open
// connections.
//
// Thread-safe.
class AccessControl {
 public:
  // Reads the files. InvalidArgument names the file and, if the file has lines, the line.
  static absl::StatusOr<std::unique_ptr<AccessControl>> Load(const SecurityOptions& options);

  // The result of a reload.
  struct Reloaded {
    std::vector<LogField> changes;       // applied changes: counts and serial numbers, no secrets
    std::vector<absl::Status> refusals;  // errors of the rejected files
    std::vector<LogField> warnings;      // ExpiredTokens
  };
  // Reads all files again. A file with an error, or without entries where it had some
  // (CheckEmptied), is rejected, and its previous content remains in effect; the other files are
  // applied nevertheless.
  Reloaded Reload(absl::Time now);

  // Log fields about tenants whose names do not match, for example after a typing error: tenants of
  // the file that no token and no certificate names, and tenants of tokens that the file does not
  // name, so that they have no quota. Empty if there are none.
  std::vector<LogField> UnmatchedTenants() const;

  // A log field with the number and the first names of expired tokens; empty if there are none.
  std::vector<LogField> ExpiredTokens(absl::Time now) const;

  // Unauthenticated, with the same message for every reason. `expired`, which may be null, receives
  // the name of an expired token, for the log only.
  absl::StatusOr<Caller> Authenticate(const PresentedCredentials& presented, absl::Time now,
                                      std::string* expired = nullptr) const;
  // PermissionDenied, with the role that the method requires.
  static absl::Status Authorize(const Caller& caller, Method method);
  // The same for `what`, a part of a call, which requires another role than its method.
  static absl::Status Authorize(const Caller& caller, absl::string_view what, Role needed);

  bool authenticates() const { return options_.authenticates(); }
  // Null: plaintext.
  std::shared_ptr<const TlsIdentity> tls() const { return tls_; }
  Quotas& quotas() { return quotas_; }
  LineLimit& refusal_lines() { return refusal_lines_; }

 private:
  explicit AccessControl(SecurityOptions options) : options_(std::move(options)) {}

  // Return the changes.
  absl::StatusOr<EntryChanges> ReloadTokens();
  absl::StatusOr<EntryChanges> ReloadTenants();

  const SecurityOptions options_;
  std::shared_ptr<TlsIdentity> tls_;
  Quotas quotas_;
  LineLimit refusal_lines_{{"rejections_suppressed", "peer", "calls"}};
  mutable Mutex mutex_;
  std::shared_ptr<const TokenTable> tokens_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const TokenTable>();
  std::shared_ptr<const TenantTable> tenants_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const TenantTable>();
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_ACCESS_CONTROL_H_
