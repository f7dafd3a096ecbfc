#include "server/listener/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;

std::string HostOfIpv4(const char* text) {
  sockaddr_storage peer = {};
  peer.ss_family = AF_INET;
  inet_pton(AF_INET, text, &reinterpret_cast<sockaddr_in&>(peer).sin_addr);
  return HostOfPeer(peer);
}

std::string HostOfIpv6(const char* text) {
  sockaddr_storage peer = {};
  peer.ss_family = AF_INET6;
  inet_pton(AF_INET6, text, &reinterpret_cast<sockaddr_in6&>(peer).sin6_addr);
  return HostOfPeer(peer);
}

TEST(AddressTest, IsAHostAndAPort) {
  const auto ipv4 = ParseAddress("127.0.0.1:50051");
  ASSERT_TRUE(ipv4.ok()) << ipv4.status();
  EXPECT_EQ(ipv4->host, "127.0.0.1");
  EXPECT_EQ(ipv4->port, 50051);
  EXPECT_EQ(ipv4->path, "");
  const auto ipv6 = ParseAddress("[2001:db8::1]:0");
  ASSERT_TRUE(ipv6.ok()) << ipv6.status();
  EXPECT_EQ(ipv6->host, "2001:db8::1");
  EXPECT_EQ(ipv6->port, 0);
}

TEST(AddressTest, IsAPath) {
  const auto address = ParseAddress("unix:/run/chorale.sock");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->path, "/run/chorale.sock");
}

TEST(AddressTest, OthersAreNamedWithWhatTheyMustBe) {
  for (const char* text : {"", "nonsense", ":50051", "h:", "h:-1", "h:65536", "h:1,h:2", "h:x",
                           "http://h:1", "[::1:1", "::1]:1", "[]:1", "::1:9464", "::1"}) {
    const absl::Status status = ParseAddress(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_THAT(std::string(status.message()), HasSubstr("host:port"));
  }
  for (const std::string& text : {std::string("unix:"), "unix:" + std::string(108, 'x')}) {
    EXPECT_THAT(std::string(ParseAddress(text).status().message()), HasSubstr("1 to 107 bytes"));
  }
}

TEST(HostOfPeerTest, IsTheAddressOrItsNetwork) {
  EXPECT_EQ(HostOfIpv4("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(HostOfIpv6("::ffff:192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(HostOfIpv6("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(HostOfIpv6("2001:db8:1:2::9"), "2001:db8:1:2::/64");
  EXPECT_NE(HostOfIpv6("2001:db8:1:3::9"), "2001:db8:1:2::/64");
  sockaddr_storage local = {};
  local.ss_family = AF_UNIX;
  EXPECT_EQ(HostOfPeer(local), "unix");
}

TEST(EndpointOfPeerTest, IsTheSameForASocketAndForGrpc) {
  sockaddr_storage peer = {};
  auto& v4 = reinterpret_cast<sockaddr_in&>(peer);
  v4.sin_family = AF_INET;
  inet_pton(AF_INET, "192.0.2.7", &v4.sin_addr);
  v4.sin_port = htons(50'000);
  const std::optional<std::string> endpoint = EndpointOfPeer(peer);
  ASSERT_TRUE(endpoint.has_value());
  EXPECT_EQ(EndpointOfPeer("ipv4:192.0.2.7:50000"), endpoint);
  EXPECT_NE(EndpointOfPeer("ipv4:192.0.2.7:50001"), endpoint);
  EXPECT_NE(EndpointOfPeer("ipv4:192.0.2.8:50000"), endpoint);

  peer = {};
  auto& v6 = reinterpret_cast<sockaddr_in6&>(peer);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(50'000);
  inet_pton(AF_INET6, "::ffff:192.0.2.7", &v6.sin6_addr);
  EXPECT_EQ(EndpointOfPeer(peer), endpoint);
  EXPECT_EQ(EndpointOfPeer("ipv6:%5B::ffff:192.0.2.7%5D:50000"), endpoint);
  inet_pton(AF_INET6, "fe80::1", &v6.sin6_addr);
  EXPECT_TRUE(EndpointOfPeer(peer).has_value());
  EXPECT_EQ(EndpointOfPeer("ipv6:%5Bfe80::1%25eth0%5D:50000"), EndpointOfPeer(peer));
  EXPECT_EQ(EndpointOfPeer("ipv6:%5Bfe80:0::1%5D:50000"), EndpointOfPeer(peer));
}

TEST(EndpointOfPeerTest, IsNoneOfAnythingElse) {
  sockaddr_storage local = {};
  local.ss_family = AF_UNIX;
  EXPECT_EQ(EndpointOfPeer(local), std::nullopt);
  for (const char* text :
       {"", ":", "unix:", "unix:/run/a:7", "ipv4:", "ipv4:192.0.2.7", "ipv4:192.0.2.7:65536",
        "ipv4:192.0.2.300:1", "ipv6:%5B::1", "ipv6:%5B::1%5D:", "ipv6:%:1", "vsock:1:1"}) {
    EXPECT_EQ(EndpointOfPeer(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace chorale
