#include "server/check_start.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/config/file_text.h"
#include "server/memory/available_resources.h"
#include "server/memory/machine_plan.h"
#include "server/net/address.h"
#include "server/net/file_limit.h"
#include "server/security/access_control.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

// That files can be made in this folder.
absl::Status CheckFolder(absl::string_view flag, const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    if (!error) error = std::make_error_code(std::errc::not_a_directory);
  } else if (access(folder.c_str(), W_OK | X_OK) != 0) {
    error = {errno, std::generic_category()};
  }
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": cannot write to ", folder.string(), ": ", error.message()));
}

// Where the file is, or will be.
std::filesystem::path FolderOf(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : ".";
}

// The folder itself, or the one where it would be made.
std::filesystem::path FirstThatExists(std::filesystem::path folder) {
  std::error_code error;
  while (!std::filesystem::exists(folder, error) && FolderOf(folder) != folder) {
    folder = FolderOf(folder);
  }
  return folder;
}

absl::Status CheckAddress(absl::string_view flag, const std::string& text) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", address.status().message()));
  }
  if (address->path.empty()) return absl::OkStatus();
  struct stat info;
  if (lstat(address->path.c_str(), &info) == 0 && !S_ISSOCK(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": ", address->path, " exists and is not a socket"));
  }
  return CheckFolder(flag, FolderOf(address->path));
}

absl::Status CheckPortFile(const std::string& file) {
  struct stat info;
  const bool exists = lstat(file.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("--port_file: ", file, " is a folder"));
  }
  if (!exists && errno == ENAMETOOLONG) {
    return absl::InvalidArgumentError(
        absl::StrCat("--port_file: ", file, ": ", std::generic_category().message(ENAMETOOLONG)));
  }
  return CheckFolder("--port_file", FolderOf(file));
}

// Each file by itself, so that a mistake in one hides none in another.
void CheckSecurity(const SecurityOptions& options, StartCheck* check) {
  SecurityOptions certificate;
  SecurityOptions tokens;
  SecurityOptions tenants;
  for (const std::string& file :
       {options.tls.certificate, options.tls.key, options.tls.client_ca}) {
    if (!file.empty()) check->mistakes.Add(ReadFileText(file).status());
  }
  // One without the other is a mistake of the flags.
  if (!options.tls.key.empty()) certificate.tls = options.tls;
  tokens.token_file = options.token_file;
  tenants.tenant_file = options.tenant_file;
  for (const SecurityOptions& one : {certificate, tokens, tenants}) {
    check->mistakes.Add(AccessControl::Load(one).status());
  }
  const absl::StatusOr<std::unique_ptr<AccessControl>> access = AccessControl::Load(options);
  if (!access.ok()) return;
  if (const auto tls = (*access)->tls(); tls != nullptr && !tls->content().IsValid(absl::Now())) {
    check->warnings.push_back(
        absl::StrCat(options.tls.certificate, ": the certificate is valid from ",
                     LogTime(tls->content().valid_from), " until ",
                     LogTime(tls->content().valid_until), ": clients will refuse to connect"));
  }
  for (const LogField& field : (*access)->ExpiredTokens(absl::Now())) {
    check->warnings.push_back(FormatText(options.token_file + ":", {field}));
  }
  for (const LogField& field : (*access)->UnmatchedTenants()) {
    check->warnings.push_back(FormatText(options.tenant_file + ":", {field}));
  }
}

}  // namespace

StartCheck CheckFiles(ProgramOptions options, const AvailableResources& resources) {
  StartCheck check;
  const absl::StatusOr<MachinePlan> plan =
      FitToMachine(resources, WeightBytes(options.engine.models), &options);
  (absl::IsUnavailable(plan.status()) ? check.passing : check.mistakes).Add(plan.status());
  if (plan.ok()) {
    for (const std::string& warning : {plan->warning, plan->limit_warning}) {
      if (!warning.empty()) check.warnings.push_back(warning);
    }
  }
  check.mistakes.Add(CheckFileLimit(RaiseFileLimit()));
  CheckSecurity(options.server.security, &check);
  if (!options.server.listen_address.empty()) {  // else a mistake of the flags
    check.mistakes.Add(CheckAddress("--listen_address", options.server.listen_address));
  }
  if (!options.server.metrics_address.empty()) {
    check.mistakes.Add(CheckAddress("--metrics_address", options.server.metrics_address));
  }
  if (const std::string& file = options.server.port_file; !file.empty()) {
    check.mistakes.Add(CheckPortFile(file));
  }
  check.mistakes.Add(CheckFolder("--data_dir", FirstThatExists(options.engine.data_dir)));
  return check;
}

}  // namespace chorale
