#include "server/options/flags.h"

#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/loopback.h"
#include "base/status_macros.h"
#include "server/options/flag_definitions.h"

namespace chorale {
namespace {

// What a file or the environment cannot set, but for the environment's CHORALE_CONFIG.
constexpr absl::string_view kCommandLineOnly[] = {"config", "print_config", "check_config",
                                                  "check"};
// Flags whose values are separated by commas.
constexpr absl::string_view kLists[] = {"models", "warm_on_start"};

// Whether the server defines the flag: Abseil and other libraries define flags as well.
bool IsOurs(const absl::CommandLineFlag& flag) {
  return absl::EndsWith(flag.Filename(), "server/options/flag_definitions.cc");
}

absl::CommandLineFlag* FindOurs(absl::string_view name) {
  absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
  return flag != nullptr && IsOurs(*flag) ? flag : nullptr;
}

// How to write a value of the flag; empty if that is obvious.
const char* Syntax(const absl::CommandLineFlag& flag) {
  if (flag.IsOfType<absl::Duration>()) return " Use a duration such as 500ms, 30s or 5m.";
  if (flag.IsOfType<int64_t>()) return " The value must be an integer.";
  if (flag.IsOfType<double>()) return " The value must be a number.";
  return "";
}

// `origin` names the source of the value.
absl::Status Set(absl::CommandLineFlag* flag, absl::string_view value, const std::string& origin) {
  if (absl::StartsWith(value, "~") || absl::StrContains(value, ",~")) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin, ": \"", value, "\" begins with ~, which only a shell expands: use the full path"));
  }
  std::string error;
  if (flag->ParseFrom(value, &error)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(origin, ": \"", value, "\" is not a valid value. ",
                                                 flag->Help(), Syntax(*flag)));
}

// Our flags by their names.
std::map<std::string, absl::CommandLineFlag*> OurFlags() {
  std::map<std::string, absl::CommandLineFlag*> flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (IsOurs(*flag)) flags[std::string(name)] = flag;
  }
  return flags;
}

}  // namespace

std::string CommandLineOrigin(const absl::CommandLineFlag& flag) {
  return absl::StrCat("--", flag.Name());
}

absl::StatusOr<FlagAction> ParseFlags(const std::vector<std::string>& arguments,
                                      FlagOrigins* origins) {
  Mistakes mistakes;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view text = arguments[i];
    if (text == "--help" || text == "-h") return FlagAction::kPrintHelp;
    if (text == "--version") return FlagAction::kPrintVersion;
    if (!absl::ConsumePrefix(&text, "--")) {
      mistakes.Add(absl::StrCat("\"", arguments[i], "\" is not a flag"));
      continue;
    }
    const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    absl::CommandLineFlag* flag = FindOurs(parts[0]);
    const bool negated = flag == nullptr && parts.size() == 1 && absl::StartsWith(text, "no");
    if (negated) flag = FindOurs(text.substr(2));
    if (flag == nullptr || (negated && !flag->IsOfType<bool>())) {
      mistakes.Add(absl::StrCat("unknown flag --", parts[0], "; --help lists all flags"));
      // What follows may be its value.
      if (parts.size() == 1 && i + 1 < arguments.size() && arguments[i + 1][0] != '-') ++i;
      continue;
    }
    absl::string_view value = negated ? "false" : "true";
    if (parts.size() == 2) {
      value = parts[1];
    } else if (!flag->IsOfType<bool>()) {
      if (++i == arguments.size()) {
        mistakes.Add(absl::StrCat("--", flag->Name(), " requires a value"));
        break;
      }
      value = arguments[i];
    }
    mistakes.Add(Set(flag, value, CommandLineOrigin(*flag)));
    if (origins != nullptr) (*origins)[std::string(flag->Name())] = CommandLineOrigin(*flag);
  }
  RETURN_IF_ERROR(mistakes.ToStatus());
  return AskedAction();
}

FlagAction AskedAction() {
  if (absl::GetFlag(FLAGS_check)) return FlagAction::kCheck;
  if (absl::GetFlag(FLAGS_check_config)) return FlagAction::kCheckConfig;
  return absl::GetFlag(FLAGS_print_config) ? FlagAction::kPrintConfig : FlagAction::kRun;
}

bool IsConfigurable(absl::string_view name) {
  return FindOurs(name) != nullptr &&
         absl::c_find(kCommandLineOnly, name) == std::end(kCommandLineOnly);
}

bool TakesList(absl::string_view name) { return absl::c_find(kLists, name) != std::end(kLists); }

absl::Status SetFlag(absl::string_view name, absl::string_view value, const std::string& origin,
                     FlagOrigins* origins) {
  (*origins)[std::string(name)] = origin;
  return Set(FindOurs(name), value, origin);
}

std::string ConfigFile() { return absl::GetFlag(FLAGS_config); }

ListenTarget ListenTargetOfFlags() {
  return {absl::GetFlag(FLAGS_listen_address), !absl::GetFlag(FLAGS_tls_certificate).empty()};
}

void ResetFlags() {
  std::string error;  // a default always parses
  for (const auto& [name, flag] : OurFlags()) flag->ParseFrom(flag->DefaultValue(), &error);
}

std::map<std::string, std::string> FlagValues() {
  std::map<std::string, std::string> values;
  for (const auto& [name, flag] : OurFlags()) {
    if (IsConfigurable(name)) values[name] = flag->CurrentValue();
  }
  return values;
}

std::string HelpText() {
  std::string text =
      "chorale-server: joint samples from in-context tabular models, over gRPC.\n\n"
      "  chorale-server --models=FOLDER[,FOLDER...] --data_dir=FOLDER [flags]\n\n"
      "Exit status:\n"
      "  0  stopped by SIGTERM or SIGINT\n"
      "  1  failed start (a port, the GPU, the data folder, or memory that others use at the\n"
      "     moment), failed backend, no more connections can be accepted, memory stayed near\n"
      "     --memory_limit_mib, or forced exit after a shutdown that took too long. Restart the\n"
      "     server: registered contexts are kept\n"
      "  2  invalid flag or configuration, or an invalid file that they name. A restart has the\n"
      "     same result\n"
      "\n"
      "SIGHUP, or a change of the file of --config, reloads the configuration. The server applies\n"
      "the log level, slow_call, the limits of requests and the models without a restart, and "
      "logs\n"
      "the changed flags that require a restart. It also reloads the files of certificates, "
      "tokens\n"
      "and tenants, on SIGHUP and when they change.\n"
      "\n"
      "Durations are written as 500ms, 30s or 5m.\n\n";
  for (const auto& [name, flag] : OurFlags()) {
    absl::StrAppend(&text, "  --", name, " (default \"", flag->DefaultValue(), "\")\n      ",
                    flag->Help(), "\n");
  }
  return text;
}

}  // namespace chorale
