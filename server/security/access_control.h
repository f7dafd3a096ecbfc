// Decides who makes a call and whether that one may.
#ifndef CHORALE_SERVER_SECURITY_ACCESS_CONTROL_H_
#define CHORALE_SERVER_SECURITY_ACCESS_CONTROL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

// A caller is known by a bearer token, or else by the certificate of its connection. A token that
// is wrong is refused whatever the certificate, so that a mistake is noticed. Without a file of
// tokens and client authorities, everybody is the tenant "default" with all roles.
//
// Tokens, tenants and roles are looked up for each call, so a reload counts for connections that
// are open as well.
//
// Thread-safe.
class AccessControl {
 public:
  // Reads the files. InvalidArgument names the file and, where it has lines, the line.
  static absl::StatusOr<std::unique_ptr<AccessControl>> Load(const SecurityOptions& options);

  // What a reload has done.
  struct Reloaded {
    std::vector<LogField> changes;       // what was taken over: counts and serials, no secrets
    std::vector<absl::Status> refusals;  // of the files that were not
    std::vector<LogField> warnings;      // ExpiredTokens
  };
  // Reads all files again. One that cannot be taken over, or that has lost all of its entries
  // (CheckEmptied), leaves what it said before; the others are taken over all the same.
  Reloaded Reload(absl::Time now);

  // Of tenants whose names do not match, as after a typing error, fields for the log: those of the
  // file whom no token and no certificate names, and those of tokens of whom the file says nothing,
  // so that they have no quota. None if there are none.
  std::vector<LogField> UnmatchedTenants() const;

  // Of tokens that have expired, a field for the log with how many and the first names; none if
  // there are none.
  std::vector<LogField> ExpiredTokens(absl::Time now) const;

  // Unauthenticated, in the same words whatever was wrong. `expired`, which may be null, gets the
  // name of the token if it is one that has expired, for the log alone.
  absl::StatusOr<Caller> Authenticate(const PresentedCredentials& presented, absl::Time now,
                                      std::string* expired = nullptr) const;
  // PermissionDenied, naming the role that the method needs.
  static absl::Status Authorize(const Caller& caller, Method method);

  bool authenticates() const { return options_.authenticates(); }
  // Null: plaintext.
  std::shared_ptr<const TlsIdentity> tls() const { return tls_; }
  Quotas& quotas() { return quotas_; }
  LineLimit& refusal_lines() { return refusal_lines_; }

 private:
  explicit AccessControl(SecurityOptions options) : options_(std::move(options)) {}

  // What has changed.
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
