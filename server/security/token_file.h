// The token file: the hashes of bearer tokens, and their owners.
#ifndef CHORALE_SERVER_SECURITY_TOKEN_FILE_H_
#define CHORALE_SERVER_SECURITY_TOKEN_FILE_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/security/caller.h"
#include "server/security/entry_changes.h"

namespace chorale {

// One line a token, its fields separated by spaces or tabs:
//
//   NAME SHA256 TENANT ROLE [EXPIRES]
//   trainer 9f86d0...15b0f00a08 acme register 2027-01-31T00:00:00Z
//
// NAME is for the log. SHA256 is that of the token, in hex; `chorale token` makes tokens of 256
// random bits, which nobody can guess, so a plain hash is enough. EXPIRES is RFC 3339. Empty lines,
// and those that begin with #, say nothing.
//
// Immutable, thread-safe.
class TokenTable {
 public:
  struct Entry {
    std::string name;
    std::string tenant;
    Role role = Role::kRead;
    absl::Time expires = absl::InfiniteFuture();

    bool operator==(const Entry&) const = default;
  };

  TokenTable() = default;
  // InvalidArgument has one line per error (Mistakes::ToStatusOf), with `file` and the line number:
  // a missing, malformed or excess field, or a name or hash that occurs twice.
  static absl::StatusOr<TokenTable> Parse(absl::string_view text, absl::string_view file);

  // The entry of a token, which may have expired; null: there is none. The duration reveals nothing
  // about the tokens of the file.
  const Entry* Find(absl::string_view token) const;

  size_t size() const { return entries_.size(); }
  // The names of the expired tokens.
  std::vector<std::string> Expired(absl::Time now) const;
  // The tenants of the tokens.
  std::set<std::string> Tenants() const;
  // By name: a token is changed if its hash, tenant, role or expiry differs.
  EntryChanges ChangesFrom(const TokenTable& before) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct HashedEntry {
    Digest digest;
    Entry entry;

    bool operator==(const HashedEntry&) const = default;
  };
  std::map<absl::string_view, const HashedEntry*> ByName() const;
  static absl::StatusOr<HashedEntry> ParseLine(absl::string_view line);
  static uint64_t KeyOf(const Digest& digest);

  // By the first bytes of the digest. The duration of a lookup depends on the digest of the
  // presented token, which nobody can choose; the remaining bytes are compared in constant time.
  std::map<uint64_t, HashedEntry> entries_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_TOKEN_FILE_H_
