#include "server/rpc/client_share.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "server/security/caller.h"

namespace chorale {
namespace {

// Of a caller that is not authenticated.
std::string HostOf(const char* peer) { return ShareOf(Caller(), PeerAddress(peer)).client; }

// Authenticated by a token.
Caller CallerOf(const std::string& tenant, int64_t weight = 1) {
  Caller caller;
  caller.tenant = tenant;
  caller.name = "token";
  caller.policy.weight = weight;
  return caller;
}

TEST(ClientShareTest, ATenantIsAClientWhereverItsCallsComeFrom) {
  const Caller caller = CallerOf("host:10.0.0.1", 3);
  const ClientShare share = ShareOf(caller, PeerAddress("ipv4:10.0.0.1:50000"));
  EXPECT_EQ(share.weight, 3);
  EXPECT_EQ(share.client, ShareOf(caller, PeerAddress("unix:/run/socket")).client);
  EXPECT_NE(share.client, HostOf("ipv4:10.0.0.1:50000")) << "a tenant cannot pass for a host";
}

TEST(ClientShareTest, ACredentialOfTheTenantDefaultIsAClientAsWell) {
  const Caller caller = CallerOf(kDefaultTenant, 3);
  const ClientShare share = ShareOf(caller, PeerAddress("ipv4:10.0.0.1:50000"));
  EXPECT_EQ(share.weight, 3);
  EXPECT_EQ(share.client, ShareOf(caller, PeerAddress("ipv4:10.0.0.2:50000")).client);
  EXPECT_NE(share.client, HostOf("ipv4:10.0.0.1:50000"));
}

TEST(ClientShareTest, WithoutATenantAHostIsAClient) {
  EXPECT_EQ(HostOf("ipv4:10.0.0.1:50000"), "host:10.0.0.1");
  EXPECT_EQ(HostOf("ipv6:%5B2001:db8:1:2::3%5D:50000"), "host:2001:db8:1:2::/64");
  EXPECT_EQ(HostOf("ipv4:10.0.0.1:50001"), HostOf("ipv4:10.0.0.1:50000"));
  EXPECT_NE(HostOf("ipv4:10.0.0.2:50000"), HostOf("ipv4:10.0.0.1:50000"));
  EXPECT_EQ(HostOf("unix:/run/a"), HostOf("unix:"));
  Caller caller;
  caller.policy.weight = 3;  // of the tenant "default", whose callers are all
  EXPECT_EQ(ShareOf(caller, PeerAddress("ipv4:10.0.0.1:50000")).weight, 1);
}

}  // namespace
}  // namespace chorale
