#include "server/security/token_file.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "server/config/mistakes.h"

namespace chorale {
namespace {

constexpr absl::string_view kForm =
    "a line must be NAME SHA256 TENANT ROLE [EXPIRES], separated by spaces";

bool IsSha256(absl::string_view hex) {
  return hex.size() == size_t{2} * SHA256_DIGEST_LENGTH &&
         std::all_of(hex.begin(), hex.end(), absl::ascii_isxdigit);
}

}  // namespace

uint64_t TokenTable::KeyOf(const Digest& digest) {
  uint64_t key = 0;
  std::memcpy(&key, digest.data(), sizeof(key));
  return key;
}

absl::StatusOr<TokenTable::HashedEntry> TokenTable::ParseLine(absl::string_view line) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  if (fields.size() < 4 || fields.size() > 5) {
    return absl::InvalidArgumentError(absl::StrCat("has ", fields.size(), " fields; ", kForm));
  }
  HashedEntry parsed;
  RETURN_IF_ERROR(ValidateName("the name", fields[0]));
  parsed.entry.name = std::string(fields[0]);
  if (!IsSha256(fields[1])) {
    return absl::InvalidArgumentError("the hash must be a SHA-256 of 64 hexadecimal digits");
  }
  const std::string digest = absl::HexStringToBytes(fields[1]);
  std::copy(digest.begin(), digest.end(), parsed.digest.begin());
  RETURN_IF_ERROR(ValidateName("the tenant", fields[2]));
  parsed.entry.tenant = std::string(fields[2]);
  const std::optional<Role> role = RoleOfName(fields[3]);
  if (!role.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the role is ", QuoteName(fields[3]), "; must be read, register or admin"));
  }
  parsed.entry.role = *role;
  std::string error;
  if (fields.size() == 5 &&
      !absl::ParseTime(absl::RFC3339_full, fields[4], &parsed.entry.expires, &error)) {
    return absl::InvalidArgumentError(absl::StrCat("the time is ", QuoteName(fields[4]),
                                                   "; must have the format 2027-01-31T00:00:00Z"));
  }
  return parsed;
}

absl::StatusOr<TokenTable> TokenTable::Parse(absl::string_view text, absl::string_view file) {
  TokenTable table;
  Mistakes mistakes;
  std::set<std::string> names;
  int64_t number = 0;
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (line.empty() || absl::StartsWith(line, "#")) continue;
    const auto refuse = [&](absl::string_view what) {
      mistakes.Add(absl::StrCat(file, ": line ", number, ": ", what));
    };
    absl::StatusOr<HashedEntry> parsed = ParseLine(line);
    if (!parsed.ok()) {
      refuse(parsed.status().message());
      continue;
    }
    const std::string name = parsed->entry.name;
    if (!names.insert(name).second) {
      refuse(absl::StrCat("the name ", QuoteName(name), " occurs twice"));
    }
    const uint64_t key = KeyOf(parsed->digest);
    if (!table.entries_.emplace(key, *std::move(parsed)).second) {
      refuse("the hash occurs twice");
    }
  }
  RETURN_IF_ERROR(mistakes.ToStatusOf(file));
  return table;
}

std::map<absl::string_view, const TokenTable::HashedEntry*> TokenTable::ByName() const {
  std::map<absl::string_view, const HashedEntry*> by_name;
  for (const auto& [key, hashed] : entries_) by_name.emplace(hashed.entry.name, &hashed);
  return by_name;
}

std::vector<std::string> TokenTable::Expired(absl::Time now) const {
  std::vector<std::string> names;
  for (const auto& [name, hashed] : ByName()) {
    if (now >= hashed->entry.expires) names.emplace_back(name);
  }
  return names;
}

std::set<std::string> TokenTable::Tenants() const {
  std::set<std::string> tenants;
  for (const auto& [key, hashed] : entries_) tenants.insert(hashed.entry.tenant);
  return tenants;
}

EntryChanges TokenTable::ChangesFrom(const TokenTable& before) const {
  return EntryChanges::Between(before.ByName(), ByName(),
                               [](const auto* a, const auto* b) { return *a == *b; });
}

const TokenTable::Entry* TokenTable::Find(absl::string_view token) const {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  const auto found = entries_.find(KeyOf(digest));
  if (found == entries_.end()) return nullptr;
  const HashedEntry& candidate = found->second;
  const bool same = CRYPTO_memcmp(candidate.digest.data(), digest.data(), digest.size()) == 0;
  return same ? &candidate.entry : nullptr;
}

}  // namespace chorale
