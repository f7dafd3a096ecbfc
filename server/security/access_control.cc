#include "server/security/access_control.h"

#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "server/config/file_text.h"

namespace chorale {
namespace {

// One answer to all: it must not tell which part of the credentials was right.
absl::Status NotAuthenticated() {
  return absl::UnauthenticatedError(
      "the server requires a valid bearer token or client certificate");
}

// The token of "Bearer TOKEN"; nothing if the value has another form.
std::optional<absl::string_view> BearerToken(absl::string_view authorization) {
  constexpr absl::string_view kScheme = "bearer ";
  if (!absl::StartsWithIgnoreCase(authorization, kScheme)) return std::nullopt;
  return absl::StripAsciiWhitespace(authorization.substr(kScheme.size()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AccessControl>> AccessControl::Load(const SecurityOptions& options) {
  std::unique_ptr<AccessControl> access(new AccessControl(options));
  if (!options.tls.certificate.empty()) {
    ASSIGN_OR_RETURN(std::shared_ptr<TlsIdentity> identity, TlsIdentity::Load(options.tls));
    access->tls_ = std::move(identity);
  }
  RETURN_IF_ERROR(access->ReloadTokens().status());
  RETURN_IF_ERROR(access->ReloadTenants().status());
  return access;
}

AccessControl::Reloaded AccessControl::Reload(absl::Time now) {
  Reloaded reloaded;
  if (tls_ != nullptr) {
    const absl::StatusOr<bool> changed = tls_->Reload(now);
    if (!changed.ok()) reloaded.refusals.push_back(changed.status());
    if (changed.ok() && *changed) {
      const TlsIdentity::Content content = tls_->content();
      reloaded.changes.push_back({"certificate_serial", content.serial});
      reloaded.changes.push_back({"certificates_expire", LogTime(content.expires)});
    }
  }
  bool entries_changed = false;
  const auto add = [&](const char* what, const absl::StatusOr<EntryChanges>& changes) {
    if (!changes.ok()) {
      reloaded.refusals.push_back(changes.status());
    } else if (changes->any()) {
      reloaded.changes.push_back({what, changes->ToString()});
      entries_changed = true;
    }
  };
  add("tokens", ReloadTokens());
  add("tenants", ReloadTenants());
  if (entries_changed) absl::c_move(UnmatchedTenants(), std::back_inserter(reloaded.changes));
  reloaded.warnings = ExpiredTokens(now);
  return reloaded;
}

absl::StatusOr<EntryChanges> AccessControl::ReloadTokens() {
  if (options_.token_file.empty()) return EntryChanges();
  ASSIGN_OR_RETURN(const std::string text, ReadFileText(options_.token_file));
  ASSIGN_OR_RETURN(TokenTable tokens, TokenTable::Parse(text, options_.token_file));
  auto shared = std::make_shared<const TokenTable>(std::move(tokens));
  MutexLock lock(&mutex_);
  const EntryChanges changes = shared->ChangesFrom(*tokens_);
  RETURN_IF_ERROR(CheckEmptied(options_.token_file, text, changes.now, changes.before));
  tokens_ = std::move(shared);
  return changes;
}

absl::StatusOr<EntryChanges> AccessControl::ReloadTenants() {
  if (options_.tenant_file.empty()) return EntryChanges();
  ASSIGN_OR_RETURN(const std::string text, ReadFileText(options_.tenant_file));
  ASSIGN_OR_RETURN(TenantTable tenants, TenantTable::Parse(text, options_.tenant_file));
  auto shared = std::make_shared<const TenantTable>(std::move(tenants));
  MutexLock lock(&mutex_);
  const EntryChanges changes = shared->ChangesFrom(*tenants_);
  RETURN_IF_ERROR(CheckEmptied(options_.tenant_file, text, changes.now, changes.before));
  tenants_ = std::move(shared);
  return changes;
}

std::vector<LogField> AccessControl::UnmatchedTenants() const {
  std::vector<LogField> fields;
  if (options_.tenant_file.empty()) return fields;
  MutexLock lock(&mutex_);
  const std::set<std::string> of_file = tenants_->Tenants();
  const std::set<std::string> of_tokens = tokens_->Tenants();
  std::set<std::string> known = of_tokens;
  if (!authenticates()) known.insert(Caller().tenant);
  if (!options_.tls.client_ca.empty()) known.merge(tenants_->TenantsOfCertificates());
  const auto add = [&fields](const char* name, const std::set<std::string>& all,
                             const std::set<std::string>& without) {
    std::vector<absl::string_view> rest;
    for (const std::string& tenant : all) {
      if (!without.contains(tenant)) rest.push_back(tenant);
    }
    if (!rest.empty()) fields.push_back({name, absl::StrJoin(rest, ",")});
  };
  add("tenants_without_callers", of_file, known);
  if (!tenants_->says_others()) add("tenants_without_quota", of_tokens, of_file);
  return fields;
}

std::vector<LogField> AccessControl::ExpiredTokens(absl::Time now) const {
  MutexLock lock(&mutex_);
  const std::vector<std::string> names = tokens_->Expired(now);
  if (names.empty()) return {};
  return {{"expired_tokens", absl::StrCat(names.size(), ": ", FirstNames(names))}};
}

absl::StatusOr<Caller> AccessControl::Authenticate(const PresentedCredentials& presented,
                                                   absl::Time now, std::string* expired) const {
  std::shared_ptr<const TokenTable> tokens;
  std::shared_ptr<const TenantTable> tenants;
  {
    MutexLock lock(&mutex_);
    tokens = tokens_;
    tenants = tenants_;
  }
  Caller caller;
  caller.peer_host = presented.peer_host;
  if (!authenticates()) {
    caller.policy = tenants->PolicyOf(caller.tenant);
    return caller;
  }
  if (!presented.authorization.empty()) {
    if (presented.authorization.size() > 1) return NotAuthenticated();
    const std::optional<absl::string_view> token = BearerToken(presented.authorization[0]);
    const TokenTable::Entry* entry = token.has_value() ? tokens->Find(*token) : nullptr;
    if (entry != nullptr && now >= entry->expires && expired != nullptr) *expired = entry->name;
    if (entry == nullptr || now >= entry->expires) return NotAuthenticated();
    caller.tenant = entry->tenant;
    caller.name = entry->name;
    caller.role = entry->role;
  } else {
    if (!presented.certificate.has_value()) return NotAuthenticated();
    const std::optional<TenantTable::Match> match = tenants->Find(*presented.certificate);
    if (!match.has_value()) return NotAuthenticated();
    caller.tenant = match->tenant;
    caller.name = match->name;
    caller.role = match->role;
  }
  caller.policy = tenants->PolicyOf(caller.tenant);
  return caller;
}

absl::Status AccessControl::Authorize(const Caller& caller, Method method) {
  return Authorize(caller, MethodName(method), RoleFor(method));
}

absl::Status AccessControl::Authorize(const Caller& caller, absl::string_view what, Role needed) {
  if (caller.role >= needed) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(what, " requires the role ", RoleName(needed),
                                                  "; the caller has the role ",
                                                  RoleName(caller.role)));
}

}  // namespace chorale
