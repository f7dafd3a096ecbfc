#include "server/net/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace chorale {
namespace {

PeerAddress OfSocket(const char* text, int port) {
  sockaddr_storage address = {};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    return PeerAddress(address);
  }
  address = {};
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  EXPECT_EQ(inet_pton(AF_INET6, text, &v6.sin6_addr), 1) << text;
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  return PeerAddress(address);
}

PeerAddress OfUnixSocket() {
  sockaddr_storage address = {};
  address.ss_family = AF_UNIX;
  return PeerAddress(address);
}

std::string HostOf(const char* peer) { return PeerAddress(peer).host(); }
std::string ClientOf(const char* peer) { return PeerAddress(peer).client(); }
std::optional<std::string> EndpointOf(const char* peer) { return PeerAddress(peer).endpoint(); }

TEST(PeerAddressTest, HasAHost) {
  EXPECT_EQ(OfSocket("192.0.2.7", 1).host(), "192.0.2.7");
  EXPECT_EQ(OfSocket("::ffff:192.0.2.7", 1).host(), "192.0.2.7");
  EXPECT_EQ(OfSocket("2001:db8::1", 1).host(), "2001:db8::1");
  EXPECT_EQ(OfUnixSocket().host(), "unix");
  EXPECT_EQ(HostOf("ipv4:127.0.0.1:80"), "127.0.0.1");
  EXPECT_EQ(HostOf("ipv6:%5B::1%5D:80"), "::1");
  EXPECT_EQ(HostOf("ipv6:[2001:db8::1]:80"), "2001:db8::1");
  EXPECT_EQ(HostOf("ipv6:%5B::ffff:10.0.0.1%5D:50000"), "10.0.0.1");
  EXPECT_EQ(HostOf("unix:/run/socket"), "unix");
}

TEST(PeerAddressTest, AClientHasAnIpv6Network) {
  EXPECT_EQ(OfSocket("192.0.2.7", 1).client(), "192.0.2.7");
  EXPECT_EQ(OfSocket("2001:db8:1:2:3:4:5:6", 1).client(), "2001:db8:1:2::/64");
  EXPECT_EQ(OfUnixSocket().client(), "unix");
  EXPECT_EQ(ClientOf("ipv4:10.0.0.1:50000"), "10.0.0.1");
  EXPECT_EQ(ClientOf("ipv6:%5B2001:db8:1:2::3%5D:50000"), "2001:db8:1:2::/64");
  EXPECT_EQ(ClientOf("ipv6:[2001:db8:1:2:ffff::4]:50001"), "2001:db8:1:2::/64");
  EXPECT_EQ(ClientOf("ipv6:%5B2001:db8:1:3::3%5D:50000"), "2001:db8:1:3::/64");
  EXPECT_EQ(ClientOf("ipv6:%5Bfe80::1%25eth0%5D:50000"), "fe80::/64");
  EXPECT_EQ(ClientOf("ipv6:%5B::ffff:10.0.0.1%5D:50000"), "10.0.0.1");
}

TEST(PeerAddressTest, AnEndpointIsTheSameForASocketAndForGrpc) {
  const std::optional<std::string> endpoint = OfSocket("192.0.2.7", 50'000).endpoint();
  ASSERT_TRUE(endpoint.has_value());
  EXPECT_EQ(EndpointOf("ipv4:192.0.2.7:50000"), endpoint);
  EXPECT_NE(EndpointOf("ipv4:192.0.2.7:50001"), endpoint);
  EXPECT_NE(EndpointOf("ipv4:192.0.2.8:50000"), endpoint);
  EXPECT_EQ(OfSocket("::ffff:192.0.2.7", 50'000).endpoint(), endpoint);
  EXPECT_EQ(EndpointOf("ipv6:%5B::ffff:192.0.2.7%5D:50000"), endpoint);
  const std::optional<std::string> local = OfSocket("fe80::1", 50'000).endpoint();
  ASSERT_TRUE(local.has_value());
  EXPECT_EQ(EndpointOf("ipv6:%5Bfe80::1%25eth0%5D:50000"), local);
  EXPECT_EQ(EndpointOf("ipv6:%5Bfe80:0::1%5D:50000"), local);
}

TEST(PeerAddressTest, AnythingElseIsStillSomebodyWithoutAnEndpoint) {
  EXPECT_EQ(OfUnixSocket().endpoint(), std::nullopt);
  for (const char* text : {"", "unix:", "unix:/run/chorale:7", "ipv4:", "ipv4:1.2.3.4", "ipv4:x:1",
                           "ipv4:192.0.2.7:65536", "ipv4:192.0.2.300:1",
                           "ipv6:%5B::1%5D:", "ipv6:%:1", "ipv6:nonsense", "vsock:1:1"}) {
    const PeerAddress peer(text);
    EXPECT_EQ(peer.endpoint(), std::nullopt) << text;
    EXPECT_EQ(peer.client(), peer.host()) << text;
    EXPECT_EQ(peer.client(), std::string(text).substr(0, std::string(text).find(':')));
  }
}

}  // namespace
}  // namespace chorale
