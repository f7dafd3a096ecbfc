#include "server/net/peer_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace chorale {
namespace {

constexpr int kIpv4Offset = 12;  // of an IPv4 address in the IPv6 address that stands for it

in6_addr Mapped(const in_addr& address) {
  in6_addr mapped = {};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  std::memcpy(&mapped.s6_addr[kIpv4Offset], &address, sizeof(address));
  return mapped;
}

std::string Text(const in6_addr& address) {
  const bool ipv4 = IN6_IS_ADDR_V4MAPPED(&address);
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? &address.s6_addr[kIpv4Offset] : &address.s6_addr[0],
            text, sizeof(text));
  return text;
}

// `text` is "192.0.2.7", or "[ADDRESS%ZONE]", percent-encoded.
std::optional<in6_addr> ParseIp(bool ipv4, absl::string_view text) {
  if (ipv4) {
    in_addr address = {};
    if (inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) return std::nullopt;
    return Mapped(address);
  }
  std::string host =
      absl::StrReplaceAll(text, {{"%5B", ""}, {"%5D", ""}, {"%25", "%"}, {"[", ""}, {"]", ""}});
  host.resize(std::min(host.find('%'), host.size()));  // the zone
  in6_addr address = {};
  if (inet_pton(AF_INET6, host.c_str(), &address) != 1) return std::nullopt;
  return address;
}

}  // namespace

PeerAddress::PeerAddress(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ip_ = Mapped(v4.sin_addr);
    port_ = v4.sin_port;
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    ip_ = v6.sin6_addr;
    port_ = v6.sin6_port;
  } else {
    kind_ = "unix";
  }
}

PeerAddress::PeerAddress(absl::string_view peer) : kind_(peer.substr(0, peer.find(':'))) {
  absl::string_view rest = peer;
  const bool ipv4 = absl::ConsumePrefix(&rest, "ipv4:");
  if (!ipv4 && !absl::ConsumePrefix(&rest, "ipv6:")) return;
  const size_t colon = rest.rfind(':');
  uint32_t port = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(rest.substr(colon + 1), &port) ||
      port > std::numeric_limits<in_port_t>::max()) {
    return;
  }
  ip_ = ParseIp(ipv4, rest.substr(0, colon));
  port_ = htons(static_cast<in_port_t>(port));
}

std::string PeerAddress::host() const { return ip_.has_value() ? Text(*ip_) : kind_; }

std::string PeerAddress::client() const {
  if (!ip_.has_value() || IN6_IS_ADDR_V4MAPPED(&*ip_)) return host();
  constexpr int kNetworkBytes = 8;
  in6_addr network = *ip_;
  std::memset(&network.s6_addr[kNetworkBytes], 0, sizeof(network) - kNetworkBytes);
  return absl::StrCat(Text(network), "/64");
}

std::optional<std::string> PeerAddress::endpoint() const {
  if (!ip_.has_value()) return std::nullopt;
  return absl::StrCat(Text(*ip_), " ", ntohs(port_));
}

}  // namespace chorale
