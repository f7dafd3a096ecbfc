#include "server/rpc/client_share.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace chorale {
namespace {

std::string WithoutPort(absl::string_view address) {
  return std::string(address.substr(0, address.rfind(':')));
}

// `address` is "[ADDRESS%ZONE]:PORT", percent-encoded.
std::string Ipv6Host(absl::string_view address) {
  std::string host =
      WithoutPort(absl::StrReplaceAll(address, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}}));
  absl::string_view text = host;
  absl::ConsumePrefix(&text, "[");
  absl::ConsumeSuffix(&text, "]");
  text = text.substr(0, text.find('%'));
  in6_addr bytes;
  if (inet_pton(AF_INET6, std::string(text).c_str(), &bytes) != 1) return host;
  const absl::string_view all(reinterpret_cast<const char*>(bytes.s6_addr), 16);
  if (IN6_IS_ADDR_V4MAPPED(&bytes)) {
    char ipv4[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, bytes.s6_addr + 12, ipv4, sizeof(ipv4));
    return absl::StrCat("ipv4:", ipv4);
  }
  return absl::StrCat("ipv6:", absl::BytesToHexString(all.substr(0, 8)), "/64");
}

}  // namespace

ClientShare ShareOf(const Caller& caller, absl::string_view peer) {
  if (caller.is_authenticated()) {
    return {absl::StrCat("tenant:", caller.tenant), static_cast<double>(caller.policy.weight)};
  }
  if (absl::ConsumePrefix(&peer, "ipv6:")) return {Ipv6Host(peer)};
  if (absl::StartsWith(peer, "ipv4:")) return {WithoutPort(peer)};
  return {std::string(peer.substr(0, peer.find(':')))};
}

}  // namespace chorale
