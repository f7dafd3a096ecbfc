#include "server/security/tenant_file.h"

#include <cstdint>
#include <exception>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "server/config/mistakes.h"
#include "server/config/yaml_document.h"
#include "yaml-cpp/yaml.h"

namespace chorale {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxMib = 1 << 30;

struct QuotaField {
  const char* name;
  int64_t TenantQuotas::*value;
  int64_t high;
  int64_t unit;
};
constexpr QuotaField kQuotaFields[] = {
    {"max_contexts", &TenantQuotas::contexts, kMaxCount, 1},
    {"max_dataset_mib", &TenantQuotas::dataset_bytes, kMaxMib, kMiB},
    {"max_resident_mib", &TenantQuotas::resident_bytes, kMaxMib, kMiB},
    {"max_concurrent_calls", &TenantQuotas::concurrent_calls, kMaxCount, 1},
    {"max_values_per_second", &TenantQuotas::values_per_second, int64_t{1} << 40, 1},
};

}  // namespace

// Reads one document. Its functions may throw what yaml-cpp throws.
class TenantFileReader {
 public:
  explicit TenantFileReader(absl::string_view file) : file_(file) {}

  absl::StatusOr<TenantTable> Read(const std::string& text);

 private:
  using Field = std::pair<std::string, YAML::Node>;

  absl::Status Refuse(const YAML::Node& at, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(file_, ": line ", at.Mark().line + 1, ": ", what));
  }
  // The entries of a map, each once. Notes the mistakes.
  std::vector<Field> FieldsOf(const YAML::Node& map, absl::string_view what);
  absl::StatusOr<int64_t> Integer(const Field& field, int64_t high) const;
  void ReadTop(const YAML::Node& top);
  void ReadTenant(const Field& tenant);
  // False: it is no field of a policy.
  absl::StatusOr<bool> ReadPolicyField(const Field& field, TenantPolicy* policy) const;
  // What is neither is no field of `what`.
  void ReadPolicy(const Field& field, absl::string_view what, TenantPolicy* policy);
  void ReadCertificates(const std::string& tenant, const YAML::Node& list);
  absl::Status ReadCertificate(const std::string& tenant, const YAML::Node& certificate);

  const absl::string_view file_;
  TenantTable table_;
  Mistakes mistakes_;
};

std::vector<TenantFileReader::Field> TenantFileReader::FieldsOf(const YAML::Node& map,
                                                                absl::string_view what) {
  std::vector<Field> fields;
  if (!map.IsMap()) {
    mistakes_.Add(Refuse(map, absl::StrCat(what, " must be a map of names to values")));
    return fields;
  }
  std::set<std::string> names;
  for (const auto& pair : map) {
    if (!pair.first.IsScalar()) {
      mistakes_.Add(Refuse(pair.first, "a key must be a string"));
      continue;
    }
    const std::string& name = pair.first.Scalar();
    if (!names.insert(name).second) {
      mistakes_.Add(Refuse(pair.first, absl::StrCat(QuoteName(name), " occurs twice")));
      continue;
    }
    fields.emplace_back(name, pair.second);
  }
  return fields;
}

absl::StatusOr<int64_t> TenantFileReader::Integer(const Field& field, int64_t high) const {
  const auto& [name, node] = field;
  int64_t value = 0;
  if (!node.IsScalar() || !absl::SimpleAtoi(node.Scalar(), &value) || value < 1 || value > high) {
    return Refuse(node, absl::StrCat(name, " must be an integer from 1 to ", high));
  }
  return value;
}

absl::StatusOr<bool> TenantFileReader::ReadPolicyField(const Field& field,
                                                       TenantPolicy* policy) const {
  if (field.first == "weight") {
    constexpr int64_t kMaxWeight = 1000;
    ASSIGN_OR_RETURN(const int64_t weight, Integer(field, kMaxWeight));
    policy->weight = weight;
    return true;
  }
  for (const QuotaField& quota : kQuotaFields) {
    if (field.first != quota.name) continue;
    ASSIGN_OR_RETURN(const int64_t value, Integer(field, quota.high));
    policy->quotas.*quota.value = value * quota.unit;
    return true;
  }
  return false;
}

absl::Status TenantFileReader::ReadCertificate(const std::string& tenant,
                                               const YAML::Node& certificate) {
  if (!certificate.IsMap()) return Refuse(certificate, "a certificate must be a map");
  std::string key;
  std::optional<Role> role;
  for (const auto& [name, node] : FieldsOf(certificate, "a certificate")) {
    if (!node.IsScalar() || node.Scalar().empty()) {
      return Refuse(node, absl::StrCat(QuoteName(name), " must be a single value"));
    }
    if (name == "role") {
      role = RoleOfName(node.Scalar());
      if (!role.has_value()) return Refuse(node, "role must be read, register or admin");
    } else if (name == "dns" || name == "uri" || name == "subject") {
      if (!key.empty())
        return Refuse(node, "a certificate must have exactly one of dns, uri and subject");
      key = absl::StrCat(name, ":", node.Scalar());
    } else {
      return Refuse(node, absl::StrCat(QuoteName(name), " is not a field of a certificate"));
    }
  }
  if (key.empty()) return Refuse(certificate, "a certificate must have dns, uri or subject");
  if (!role.has_value()) return Refuse(certificate, "a certificate must have a role");
  if (!table_.certificates_.try_emplace(key, TenantTable::Match{tenant, key, *role}).second) {
    return Refuse(certificate, absl::StrCat("the certificate ", QuoteName(key), " occurs twice"));
  }
  return absl::OkStatus();
}

void TenantFileReader::ReadCertificates(const std::string& tenant, const YAML::Node& list) {
  if (!list.IsSequence()) return mistakes_.Add(Refuse(list, "certificates must be a list"));
  for (const YAML::Node& certificate : list) mistakes_.Add(ReadCertificate(tenant, certificate));
}

void TenantFileReader::ReadPolicy(const Field& field, absl::string_view what,
                                  TenantPolicy* policy) {
  const absl::StatusOr<bool> known = ReadPolicyField(field, policy);
  mistakes_.Add(known.status());
  if (!known.ok() || *known) return;
  mistakes_.Add(
      Refuse(field.second, absl::StrCat(QuoteName(field.first), " is not a field of ", what)));
}

void TenantFileReader::ReadTenant(const Field& tenant) {
  const auto& [name, node] = tenant;
  if (const absl::Status valid = ValidateName("the tenant", name); !valid.ok()) {
    mistakes_.Add(Refuse(node, valid.message()));
  }
  TenantPolicy& policy = table_.tenants_[name];
  for (const Field& field : FieldsOf(node, QuoteName(name))) {
    if (field.first == "certificates") {
      ReadCertificates(name, field.second);
    } else {
      ReadPolicy(field, "a tenant", &policy);
    }
  }
}

void TenantFileReader::ReadTop(const YAML::Node& top) {
  for (const auto& [section, node] : FieldsOf(top, "the file")) {
    if (section != "tenants" && section != "others") {
      mistakes_.Add(
          Refuse(node, absl::StrCat(QuoteName(section),
                                    " is not a section of the file: use tenants or others")));
      continue;
    }
    for (const Field& field : FieldsOf(node, section)) {
      if (section == "tenants") {
        ReadTenant(field);
      } else {
        ReadPolicy(field, section, &table_.others_);
      }
    }
  }
}

absl::StatusOr<TenantTable> TenantFileReader::Read(const std::string& text) {
  const absl::StatusOr<YAML::Node> document = LoadYamlDocument(text);
  if (!document.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file_, ": ", document.status().message()));
  }
  if (!document->IsNull()) ReadTop(*document);
  RETURN_IF_ERROR(mistakes_.ToStatusOf(file_));
  return std::move(table_);
}

absl::StatusOr<TenantTable> TenantTable::Parse(const std::string& text, absl::string_view file) {
  try {
    return TenantFileReader(file).Read(text);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": line ", error.mark.line + 1, ": ", error.msg));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", error.what()));
  }
}

std::map<std::string, TenantTable::Described> TenantTable::Describe() const {
  std::map<std::string, Described> described;
  for (const auto& [name, policy] : tenants_) described[name].policy = policy;
  for (const auto& [key, match] : certificates_) {
    described[match.tenant].certificates.push_back(match);
  }
  if (says_others()) described["(others)"].policy = others_;
  return described;
}

EntryChanges TenantTable::ChangesFrom(const TenantTable& before) const {
  return EntryChanges::Between(before.Describe(), Describe(),
                               [](const Described& a, const Described& b) { return a == b; });
}

std::set<std::string> TenantTable::Tenants() const {
  std::set<std::string> tenants;
  for (const auto& [name, policy] : tenants_) tenants.insert(name);
  return tenants;
}

std::set<std::string> TenantTable::TenantsOfCertificates() const {
  std::set<std::string> tenants;
  for (const auto& [names, match] : certificates_) tenants.insert(match.tenant);
  return tenants;
}

const TenantPolicy& TenantTable::PolicyOf(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? others_ : found->second;
}

std::optional<TenantTable::Match> TenantTable::Find(const CertificateNames& certificate) const {
  std::vector<std::string> keys;
  for (const std::string& name : certificate.dns) keys.push_back(absl::StrCat("dns:", name));
  for (const std::string& name : certificate.uris) keys.push_back(absl::StrCat("uri:", name));
  keys.push_back(absl::StrCat("subject:", certificate.subject));
  std::optional<Match> match;
  for (const std::string& key : keys) {
    const auto found = certificates_.find(key);
    if (found == certificates_.end()) continue;
    const Match& other = found->second;
    if (match.has_value() && (match->tenant != other.tenant || match->role != other.role)) {
      return std::nullopt;
    }
    if (!match.has_value()) match = other;
  }
  return match;
}

}  // namespace chorale
