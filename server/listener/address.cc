#include "server/listener/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace chorale {
namespace {

constexpr uint32_t kMaxPort = 65'535;
// A path ends with a zero byte in its sockaddr_un.
constexpr size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;
constexpr int kIpv4Offset = 12;  // of an IPv4 address in the IPv6 address that stands for it

std::string Numeric(int family, const void* address) {
  char text[INET6_ADDRSTRLEN] = {};
  return inet_ntop(family, address, text, sizeof(text)) == nullptr ? "unknown" : text;
}

std::string Endpoint(const in6_addr& address, in_port_t port) {
  return absl::StrCat(Numeric(AF_INET6, &address), " ", ntohs(port));
}

std::string Endpoint(const in_addr& address, in_port_t port) {
  in6_addr mapped = {};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  std::memcpy(&mapped.s6_addr[kIpv4Offset], &address, sizeof(address));
  return Endpoint(mapped, port);
}

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
    return Malformed(text, "it must be host:port with a port of 0 to 65535");
  }
  absl::string_view host = absl::string_view(text).substr(0, colon);
  const bool bracketed = absl::ConsumePrefix(&host, "[");
  if (bracketed != absl::ConsumeSuffix(&host, "]") || host.empty()) {
    return Malformed(text, "it must be host:port, an IPv6 address as [::1]:port");
  }
  // "::1" could be the host "::" and a port.
  if (!bracketed && absl::StrContains(host, ':')) {
    return Malformed(text, "it must be host:port, and an IPv6 address needs brackets: [::1]:port");
  }
  address.host = std::string(host);
  address.port = static_cast<int>(port);
  return address;
}

std::string HostOfPeer(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) {
    return Numeric(AF_INET, &reinterpret_cast<const sockaddr_in&>(peer).sin_addr);
  }
  if (peer.ss_family != AF_INET6) return "unix";
  in6_addr address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&address)) return Numeric(AF_INET, &address.s6_addr[kIpv4Offset]);
  constexpr int kNetworkBytes = 8;
  std::memset(&address.s6_addr[kNetworkBytes], 0, sizeof(address) - kNetworkBytes);
  return absl::StrCat(Numeric(AF_INET6, &address), "/64");
}

std::optional<std::string> EndpointOfPeer(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    return Endpoint(v4.sin_addr, v4.sin_port);
  }
  if (peer.ss_family != AF_INET6) return std::nullopt;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
  return Endpoint(v6.sin6_addr, v6.sin6_port);
}

std::optional<std::string> EndpointOfPeer(absl::string_view peer) {
  const size_t colon = peer.rfind(':');
  uint32_t number = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(peer.substr(colon + 1), &number) ||
      number > kMaxPort) {
    return std::nullopt;
  }
  const in_port_t port = htons(static_cast<in_port_t>(number));
  absl::string_view host = peer.substr(0, colon);
  if (absl::ConsumePrefix(&host, "ipv4:")) {
    in_addr address = {};
    if (inet_pton(AF_INET, std::string(host).c_str(), &address) != 1) return std::nullopt;
    return Endpoint(address, port);
  }
  if (!absl::ConsumePrefix(&host, "ipv6:")) return std::nullopt;
  std::string text = absl::StrReplaceAll(host, {{"%5B", ""}, {"%5D", ""}, {"%25", "%"}});
  text.resize(std::min(text.find('%'), text.size()));  // the zone
  in6_addr address = {};
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1) return std::nullopt;
  return Endpoint(address, port);
}

}  // namespace chorale
