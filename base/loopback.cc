#include "base/loopback.h"

#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace chorale {
namespace {

// Whether `host` is four decimal numbers, the first of them 127.
bool IsLoopbackIpv4(absl::string_view host) {
  const std::vector<absl::string_view> parts = absl::StrSplit(host, '.');
  if (parts.size() != 4 || parts[0] != "127") return false;
  for (const absl::string_view part : parts) {
    uint32_t number = 0;
    const bool digits = part.find_first_not_of("0123456789") == absl::string_view::npos;
    if (!digits || part.size() > 3 || !absl::SimpleAtoi(part, &number) || number > 255) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool IsLoopbackAddress(absl::string_view address) {
  if (absl::StartsWith(address, "unix:")) return true;
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return false;
  const absl::string_view host = address.substr(0, colon);
  return host == "localhost" || host == "[::1]" || IsLoopbackIpv4(host);
}

}  // namespace chorale
