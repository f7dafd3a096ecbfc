// chorale token
#include <fcntl.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"

namespace chorale::client {
namespace {

struct TokenOptions {
  std::string name;
  std::string tenant;
  std::string role;
  std::string file;
  int days = 0;  // 0: no expiry
};

// Returns 256 random bits. They cannot be guessed, so the hash needs neither salt nor stretching.
absl::StatusOr<std::string> MakeToken() {
  unsigned char bytes[32];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) {
    return absl::InternalError("the system's random number generator failed");
  }
  return absl::WebSafeBase64Escape(
      absl::string_view(reinterpret_cast<const char*>(bytes), sizeof(bytes)));
}

// The file must not exist: other users may be able to read it, or may require the token in it.
absl::Status WriteSecret(const std::string& path, const std::string& secret) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const std::string line = absl::StrCat(secret, "\n");
  bool written =
      file >= 0 && write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  if (file >= 0) written = close(file) == 0 && written;
  if (written) return absl::OkStatus();
  if (file >= 0) unlink(path.c_str());
  return absl::InvalidArgumentError(
      absl::StrCat("--to: cannot write '", path, "': ", std::generic_category().message(error)));
}

absl::Status RunToken(const TokenOptions& options, Environment* environment) {
  RETURN_IF_ERROR(ValidateName("NAME", options.name));
  RETURN_IF_ERROR(ValidateName("--tenant", options.tenant));
  ASSIGN_OR_RETURN(const std::string token, MakeToken());
  RETURN_IF_ERROR(WriteSecret(options.file, token));
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest);
  std::string line = absl::StrCat(options.name, " ",
                                  absl::BytesToHexString(absl::string_view(
                                      reinterpret_cast<const char*>(digest), sizeof(digest))),
                                  " ", options.tenant, " ", options.role);
  if (options.days > 0) {
    absl::StrAppend(
        &line, " ",
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now() + absl::Hours(24) * options.days,
                         absl::UTCTimeZone()));
  }
  absl::Status status = environment->Write([&](std::ostream& out) { out << line << '\n'; });
  // Without its line the token is useless, and another attempt requires that the file is absent.
  if (!status.ok()) unlink(options.file.c_str());
  return status;
}

}  // namespace

void AddTokenCommand(CLI::App* app, Environment* environment) {
  auto options = std::make_shared<TokenOptions>();
  CLI::App* command = AddCommand(
      app, environment, "token",
      "Create a bearer token. Writes the token to a file that only you can read, and the "
      "line for the server's --token_file, which has the token's hash, to standard output",
      options, RunToken);
  command->add_option("NAME", options->name, "Name of the token in the server's log")->required();
  command
      ->add_option("--tenant", options->tenant, "Tenant to whose contexts the token gives access")
      ->required()
      ->type_name("TENANT");
  command->add_option("--role", options->role, "Role of the caller: read, register or admin")
      ->required()
      ->check(CLI::IsMember({"read", "register", "admin"}))
      ->type_name("ROLE");
  command->add_option("--to", options->file, "File for the token, which must not exist yet")
      ->required()
      ->type_name("FILE");
  command->add_option("--days", options->days, "Days until the token expires [never]")
      ->transform(IntegerBetween(1, 36500))
      ->type_name("N");
}

}  // namespace chorale::client
