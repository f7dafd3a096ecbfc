#include "server/net/address.h"

#include <sys/un.h>

#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace chorale {
namespace {

constexpr uint32_t kMaxPort = 65'535;
// A path ends with a zero byte in its sockaddr_un.
constexpr size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;

absl::Status Malformed(const std::string& text, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("cannot listen on ", text, ": ", what));
}

}  // namespace

absl::StatusOr<Address> ParseAddress(const std::string& text) {
  Address address;
  if (absl::StartsWith(text, "unix:")) {
    address.path = text.substr(std::strlen("unix:"));
    if (!address.path.empty() && address.path.size() <= kMaxPathBytes) return address;
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot listen on ", text, ": the path must have 1 to ", kMaxPathBytes, " bytes"));
  }
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  if (absl::StrContains(text, "://") || colon == std::string::npos || colon == 0 ||
      absl::StrContains(text, ',') || !absl::SimpleAtoi(text.substr(colon + 1), &port) ||
      port > kMaxPort) {
    return Malformed(text, "the address must be HOST:PORT with a port from 0 to 65535");
  }
  absl::string_view host = absl::string_view(text).substr(0, colon);
  const bool bracketed = absl::ConsumePrefix(&host, "[");
  if (bracketed != absl::ConsumeSuffix(&host, "]") || host.empty()) {
    return Malformed(text,
                     "the address must be HOST:PORT, with an IPv6 address in brackets: [::1]:PORT");
  }
  // "::1" could be the host "::" and a port.
  if (!bracketed && absl::StrContains(host, ':')) {
    return Malformed(text,
                     "the address must be HOST:PORT, with an IPv6 address in brackets: [::1]:PORT");
  }
  address.host = std::string(host);
  address.port = static_cast<int>(port);
  return address;
}

}  // namespace chorale
