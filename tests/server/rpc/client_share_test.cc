#include "server/rpc/client_share.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "server/security/caller.h"

namespace chorale {
namespace {

// Of a caller that is not authenticated.
std::string HostOf(const char* peer) { return ShareOf(Caller(), peer).client; }

// Authenticated by a token.
Caller CallerOf(const std::string& tenant, int64_t weight = 1) {
  Caller caller;
  caller.tenant = tenant;
  caller.name = "token";
  caller.policy.weight = weight;
  return caller;
}

TEST(ClientShareTest, ATenantIsAClientWhereverItsCallsComeFrom) {
  const Caller caller = CallerOf("ipv4:10.0.0.1", 3);
  const ClientShare share = ShareOf(caller, "ipv4:10.0.0.1:50000");
  EXPECT_EQ(share.weight, 3);
  EXPECT_EQ(share.client, ShareOf(caller, "unix:/run/socket").client);
  EXPECT_NE(share.client, HostOf("ipv4:10.0.0.1:50000")) << "a tenant cannot pass for a host";
}

TEST(ClientShareTest, ACredentialOfTheTenantDefaultIsAClientAsWell) {
  const Caller caller = CallerOf(kDefaultTenant, 3);
  const ClientShare share = ShareOf(caller, "ipv4:10.0.0.1:50000");
  EXPECT_EQ(share.weight, 3);
  EXPECT_EQ(share.client, ShareOf(caller, "ipv4:10.0.0.2:50000").client);
  EXPECT_NE(share.client, HostOf("ipv4:10.0.0.1:50000"));
}

TEST(ClientShareTest, WithoutATenantAHostIsAClient) {
  EXPECT_EQ(HostOf("ipv4:10.0.0.1:50000"), "ipv4:10.0.0.1");
  EXPECT_EQ(HostOf("ipv4:10.0.0.1:50001"), HostOf("ipv4:10.0.0.1:50000"));
  EXPECT_NE(HostOf("ipv4:10.0.0.2:50000"), HostOf("ipv4:10.0.0.1:50000"));
  EXPECT_EQ(HostOf("unix:/run/a"), HostOf("unix:"));
  Caller caller;
  caller.policy.weight = 3;  // of the tenant "default", whose callers are all
  EXPECT_EQ(ShareOf(caller, "ipv4:10.0.0.1:50000").weight, 1);
}

TEST(ClientShareTest, Ipv6CountsByItsNetwork) {
  EXPECT_EQ(HostOf("ipv6:%5B2001:db8:1:2::3%5D:50000"), "ipv6:20010db800010002/64");
  EXPECT_EQ(HostOf("ipv6:[2001:db8:1:2:ffff::4]:50001"), "ipv6:20010db800010002/64");
  EXPECT_NE(HostOf("ipv6:%5B2001:db8:1:3::3%5D:50000"), HostOf("ipv6:%5B2001:db8:1:2::3%5D:50000"));
  EXPECT_EQ(HostOf("ipv6:%5Bfe80::1%25eth0%5D:50000"), "ipv6:fe80000000000000/64");
  EXPECT_EQ(HostOf("ipv6:%5B::ffff:10.0.0.1%5D:50000"), "ipv4:10.0.0.1");
}

TEST(ClientShareTest, AnythingElseIsStillSomebody) {
  EXPECT_EQ(HostOf("ipv6:nonsense"), "nonsense");
  EXPECT_EQ(HostOf("unknown"), "unknown");
  EXPECT_EQ(HostOf(""), "");
}

}  // namespace
}  // namespace chorale
