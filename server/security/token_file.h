// The file of bearer tokens: who has one, as a hash.
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
  // InvalidArgument has a line for each mistake (Mistakes::ToStatusOf), which names `file` and the
  // line: a field that is missing, malformed or too many, a
  // name or a hash that occurs twice.
  static absl::StatusOr<TokenTable> Parse(absl::string_view text, absl::string_view file);

  // The entry of a token, which may have expired; null: there is none. The time that it takes tells
  // nothing about the tokens of the file.
  const Entry* Find(absl::string_view token) const;

  size_t size() const { return entries_.size(); }
  // The names of the tokens that are of no use any more.
  std::vector<std::string> Expired(absl::Time now) const;
  // That some token is of.
  std::set<std::string> Tenants() const;
  // By name: a token whose hash, tenant, role or end is another one is changed.
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

  // By the first bytes of the digest. How long a search takes depends on the digest of what was
  // presented, and nobody can choose that; the rest is compared in constant time.
  std::map<uint64_t, HashedEntry> entries_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_TOKEN_FILE_H_
