#include "server/net/address.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;

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
    EXPECT_THAT(std::string(status.message()), HasSubstr("HOST:PORT"));
  }
  for (const std::string& text : {std::string("unix:"), "unix:" + std::string(108, 'x')}) {
    EXPECT_THAT(std::string(ParseAddress(text).status().message()), HasSubstr("1 to 107 bytes"));
  }
}

}  // namespace
}  // namespace chorale
