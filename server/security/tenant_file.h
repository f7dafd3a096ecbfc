// The tenant file: weights, quotas and client certificates of tenants.
#ifndef CHORALE_SERVER_SECURITY_TENANT_FILE_H_
#define CHORALE_SERVER_SECURITY_TENANT_FILE_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/security/caller.h"
#include "server/security/entry_changes.h"

namespace chorale {

// The identity in a verified client certificate.
struct CertificateNames {
  std::string subject;            // RFC 2253, "CN=trainer,O=Acme"
  std::vector<std::string> dns;   // subject alternative names
  std::vector<std::string> uris;  // likewise
};

// YAML:
//
//   tenants:
//     acme:
//       weight: 2                      # 1 to 1000; 1
//       max_contexts: 100              # quotas; none where they are not given
//       max_dataset_mib: 4096
//       max_resident_mib: 1024
//       max_concurrent_calls: 32
//       max_values_per_second: 1000000
//       certificates:
//         - {dns: trainer.acme.example, role: register}
//         - {uri: "spiffe://acme.example/reader", role: read}
//         - {subject: "CN=root,O=Acme", role: admin}
//   others: {max_contexts: 10}         # the same of each tenant that is not named
//
// Immutable, thread-safe.
class TenantTable {
 public:
  struct Match {
    std::string tenant;
    std::string name;  // the entry, for the log: "dns:trainer.acme.example"
    Role role = Role::kRead;

    bool operator==(const Match&) const = default;
  };

  TenantTable() = default;
  // InvalidArgument has one line per error (Mistakes::ToStatusOf), with `file` and the line number:
  // text that is not YAML, a field that is unknown, malformed, out of range or repeated, or a
  // certificate in two entries.
  static absl::StatusOr<TenantTable> Parse(const std::string& text, absl::string_view file);

  // The policy of a tenant that the file does not name: `others`.
  const TenantPolicy& PolicyOf(const std::string& tenant) const;
  // The entry that matches a certificate. Nothing if there is none, or if several entries disagree
  // about the tenant or the role: the result would depend on their order in the file.
  std::optional<Match> Find(const CertificateNames& certificate) const;

  size_t size() const { return tenants_.size(); }
  // The tenants in the file, and the tenants with a certificate.
  std::set<std::string> Tenants() const;
  std::set<std::string> TenantsOfCertificates() const;
  // Whether the file has a policy for tenants that it does not name.
  bool says_others() const { return others_ != TenantPolicy(); }
  // The changes of the tenants, and of `others` if the file has it. A tenant is changed if its
  // weight, quotas or certificates differ.
  EntryChanges ChangesFrom(const TenantTable& before) const;

 private:
  friend class TenantFileReader;

  // The content of the file about a tenant.
  struct Described {
    TenantPolicy policy;
    std::vector<Match> certificates;

    bool operator==(const Described&) const = default;
  };
  std::map<std::string, Described> Describe() const;

  std::map<std::string, TenantPolicy> tenants_;
  TenantPolicy others_;
  std::map<std::string, Match> certificates_;  // by "dns:...", "uri:...", "subject:..."
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_TENANT_FILE_H_
