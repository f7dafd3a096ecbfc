#include "server/config/environment_variables.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/sanitized.h"

namespace chorale {
namespace {

constexpr absl::string_view kVariablePrefix = "CHORALE_";

bool IsNumber(absl::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == absl::string_view::npos;
}

// Without the service's name, such as SERVICE_HOST, SERVICE_PORT_GRPC, PORT, PORT_50051_TCP_ADDR.
bool IsServiceLink(absl::Span<const absl::string_view> words) {
  if (words[0] == "SERVICE" && words.size() > 1) {
    return (words[1] == "HOST" && words.size() == 2) || words[1] == "PORT";
  }
  if (words[0] != "PORT") return false;
  if (words.size() == 1) return true;
  if (words.size() < 3 || words.size() > 4 || !IsNumber(words[1])) return false;
  if (words[2] != "TCP" && words[2] != "UDP" && words[2] != "SCTP") return false;
  return words.size() == 3 || words[3] == "PROTO" || words[3] == "PORT" || words[3] == "ADDR";
}

}  // namespace

bool IsForeignVariable(absl::string_view variable) {
  if (kSanitized && variable == "CHORALE_FAULTS") return true;
  for (const absl::string_view known : {"CHORALE_SERVER", "CHORALE_TOKEN", "CHORALE_HOME",
                                        "CHORALE_SERVER_BUNDLE", "CHORALE_CUDA_LIBRARY"}) {
    if (variable == known) return true;
  }
  const std::vector<absl::string_view> words = absl::StrSplit(variable, '_');
  // The service's name is one word or more.
  for (size_t name = 1; name < words.size(); ++name) {
    if (IsServiceLink(absl::MakeSpan(words).subspan(name))) return true;
  }
  return false;
}

std::vector<FlagVariable> FlagVariables(const std::vector<std::string>& environment) {
  std::vector<FlagVariable> found;
  for (const std::string& line : environment) {
    if (!absl::StartsWith(line, kVariablePrefix)) continue;
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (parts.size() != 2) continue;
    found.push_back(
        {parts[0], absl::AsciiStrToLower(absl::StripPrefix(parts[0], kVariablePrefix)), parts[1]});
  }
  return found;
}

}  // namespace chorale
