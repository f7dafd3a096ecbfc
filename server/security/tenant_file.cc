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
  // The entries of a map, each once.
  absl::StatusOr<std::vector<Field>> FieldsOf(const YAML::Node& map, absl::string_view what) const;
  absl::StatusOr<int64_t> Integer(const Field& field, int64_t high) const;
  absl::Status ReadTop(const YAML::Node& top);
  absl::Status ReadTenant(const Field& tenant);
  // False: it is no field of a policy.
  absl::StatusOr<bool> ReadPolicyField(const Field& field, TenantPolicy* policy) const;
  absl::Status ReadCertificates(const std::string& tenant, const YAML::Node& list);
  absl::Status ReadCertificate(const std::string& tenant, const YAML::Node& certificate);

  const absl::string_view file_;
  TenantTable table_;
};

absl::StatusOr<std::vector<TenantFileReader::Field>> TenantFileReader::FieldsOf(
    const YAML::Node& map, absl::string_view what) const {
  if (!map.IsMap()) return Refuse(map, absl::StrCat(what, " must be a map of names to values"));
  std::vector<Field> fields;
  std::set<std::string> names;
  for (const auto& pair : map) {
    if (!pair.first.IsScalar()) return Refuse(pair.first, "a key must be a name");
    const std::string& name = pair.first.Scalar();
    if (!names.insert(name).second) {
      return Refuse(pair.first, absl::StrCat(QuoteName(name), " is given twice"));
    }
    fields.emplace_back(name, pair.second);
  }
  return fields;
}

absl::StatusOr<int64_t> TenantFileReader::Integer(const Field& field, int64_t high) const {
  const auto& [name, node] = field;
  int64_t value = 0;
  if (!node.IsScalar() || !absl::SimpleAtoi(node.Scalar(), &value) || value < 1 || value > high) {
    return Refuse(node, absl::StrCat(name, " must be a whole number from 1 to ", high));
  }
  return value;
}

absl::StatusOr<bool> TenantFileReader::ReadPolicyField(const Field& field,
                                                       TenantPolicy* policy) const {
  if (field.first == "weight") {
    constexpr int64_t kMaxWeight = 1000;
    const absl::StatusOr<int64_t> weight = Integer(field, kMaxWeight);
    RETURN_IF_ERROR(weight.status());
    policy->weight = *weight;
    return true;
  }
  for (const QuotaField& quota : kQuotaFields) {
    if (field.first != quota.name) continue;
    const absl::StatusOr<int64_t> value = Integer(field, quota.high);
    RETURN_IF_ERROR(value.status());
    policy->quotas.*quota.value = *value * quota.unit;
    return true;
  }
  return false;
}

absl::Status TenantFileReader::ReadCertificate(const std::string& tenant,
                                               const YAML::Node& certificate) {
  const absl::StatusOr<std::vector<Field>> fields = FieldsOf(certificate, "a certificate");
  RETURN_IF_ERROR(fields.status());
  std::string key;
  std::optional<Role> role;
  for (const auto& [name, node] : *fields) {
    if (!node.IsScalar() || node.Scalar().empty()) {
      return Refuse(node, absl::StrCat(QuoteName(name), " must be one value"));
    }
    if (name == "role") {
      role = RoleOfName(node.Scalar());
      if (!role.has_value()) return Refuse(node, "role must be read, register or admin");
    } else if (name == "dns" || name == "uri" || name == "subject") {
      if (!key.empty()) return Refuse(node, "a certificate has one of dns, uri and subject");
      key = absl::StrCat(name, ":", node.Scalar());
    } else {
      return Refuse(node, absl::StrCat(QuoteName(name), " is no field of a certificate"));
    }
  }
  if (key.empty()) return Refuse(certificate, "a certificate needs dns, uri or subject");
  if (!role.has_value()) return Refuse(certificate, "a certificate needs a role");
  if (!table_.certificates_.try_emplace(key, TenantTable::Match{tenant, key, *role}).second) {
    return Refuse(certificate, absl::StrCat("the certificate ", QuoteName(key), " is given twice"));
  }
  return absl::OkStatus();
}

absl::Status TenantFileReader::ReadCertificates(const std::string& tenant, const YAML::Node& list) {
  if (!list.IsSequence()) return Refuse(list, "certificates must be a list");
  for (const YAML::Node& certificate : list) RETURN_IF_ERROR(ReadCertificate(tenant, certificate));
  return absl::OkStatus();
}

absl::Status TenantFileReader::ReadTenant(const Field& tenant) {
  const auto& [name, node] = tenant;
  if (const absl::Status valid = ValidateName("the tenant", name); !valid.ok()) {
    return Refuse(node, valid.message());
  }
  const absl::StatusOr<std::vector<Field>> fields = FieldsOf(node, QuoteName(name));
  RETURN_IF_ERROR(fields.status());
  TenantPolicy& policy = table_.tenants_[name];
  for (const Field& field : *fields) {
    if (field.first == "certificates") {
      RETURN_IF_ERROR(ReadCertificates(name, field.second));
      continue;
    }
    const absl::StatusOr<bool> known = ReadPolicyField(field, &policy);
    RETURN_IF_ERROR(known.status());
    if (!*known) {
      return Refuse(field.second, absl::StrCat(QuoteName(field.first), " is no field of a tenant"));
    }
  }
  return absl::OkStatus();
}

absl::Status TenantFileReader::ReadTop(const YAML::Node& top) {
  const absl::StatusOr<std::vector<Field>> sections = FieldsOf(top, "the file");
  RETURN_IF_ERROR(sections.status());
  for (const auto& [section, node] : *sections) {
    if (section != "tenants" && section != "others") {
      return Refuse(node, absl::StrCat(QuoteName(section), " is neither tenants nor others"));
    }
    const absl::StatusOr<std::vector<Field>> fields = FieldsOf(node, section);
    RETURN_IF_ERROR(fields.status());
    for (const Field& field : *fields) {
      if (section == "tenants") {
        RETURN_IF_ERROR(ReadTenant(field));
        continue;
      }
      const absl::StatusOr<bool> known = ReadPolicyField(field, &table_.others_);
      RETURN_IF_ERROR(known.status());
      if (!*known) {
        return Refuse(field.second, absl::StrCat(QuoteName(field.first), " is no field of others"));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TenantTable> TenantFileReader::Read(const std::string& text) {
  const absl::StatusOr<YAML::Node> document = LoadYamlDocument(text);
  if (!document.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file_, ": ", document.status().message()));
  }
  if (!document->IsNull()) RETURN_IF_ERROR(ReadTop(*document));
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
