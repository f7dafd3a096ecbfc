#include "client/cpp/server_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

namespace chorale::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ServerAddressTest, TakesWhatIsUnambiguous) {
  for (const auto& [text, address] : {
           std::pair{"127.0.0.1:50051", "127.0.0.1:50051"},
           {"example.org:443", "example.org:443"},
           {" LocalHost:50051\n", "localhost:50051"},
           {"[::1]:50051", "[::1]:50051"},
           {"[2001:DB8::1]:1", "[2001:db8::1]:1"},
           {"unix:/run/chorale.sock", "unix:/run/chorale.sock"},
           {"unix:///run/A.sock", "unix:///run/A.sock"},
           {"dns:///Example.org:1", "example.org:1"},
           {"dns:example.org:1", "example.org:1"},
           {"dns://1.1.1.1/example.org:1", "dns://1.1.1.1/example.org:1"},
           {"ipv4:127.0.0.1:7", "127.0.0.1:7"},
           {"ipv4:127.0.0.1:7,127.0.0.2:7", "ipv4:127.0.0.1:7,127.0.0.2:7"},
           {"ipv6:[::1]:7", "[::1]:7"},
           {"xds:///service", "xds:///service"},
       }) {
    const absl::StatusOr<ServerAddress> parsed = ParseServerAddress(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->address, address);
    EXPECT_EQ(parsed->scheme, AddressScheme::kNone);
  }
}

TEST(ServerAddressTest, TakesUrls) {
  for (const auto& [text, address, scheme] : {
           std::tuple{"http://127.0.0.1:50051", "127.0.0.1:50051", AddressScheme::kPlain},
           {"HTTP://127.0.0.1:50051/", "127.0.0.1:50051", AddressScheme::kPlain},
           {"grpc://host:1", "host:1", AddressScheme::kPlain},
           {"tcp://host:1", "host:1", AddressScheme::kPlain},
           {"https://host:8443", "host:8443", AddressScheme::kTls},
           {"https://host", "host:443", AddressScheme::kTls},
           {"https://[::1]/", "[::1]:443", AddressScheme::kTls},
           {"grpcs://host:1", "host:1", AddressScheme::kTls},
       }) {
    const absl::StatusOr<ServerAddress> parsed = ParseServerAddress(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->address, address);
    EXPECT_EQ(parsed->scheme, scheme);
  }
}

TEST(ServerAddressTest, SaysWhatIsExpected) {
  for (const auto& [text, what] : {
           std::pair{"", "is empty"},
           {" ", "is empty"},
           {"example.org", "has no port (example: example.org:50051)"},
           {"127.0.0.1", "has no port (example: 127.0.0.1:50051)"},
           {"[::1]", "has no port (example: [::1]:50051)"},
           {"http://example.org", "has no port"},
           {"grpcs://example.org", "has no port"},
           {"::1", "without brackets"},
           {"::1:50051", "without brackets"},
           {":50051", "has no host"},
           {"host:", "has the invalid port ''"},
           {"host:port", "has the invalid port 'port'"},
           {"host:0", "has the invalid port '0'"},
           {"host:65536", "has the invalid port '65536'"},
           {"host:-1", "has the invalid port '-1'"},
           {"ftp://host:1", "has the unknown scheme 'ftp'"},
           {"http://host:1/v1", "has a path"},
           {"http://user@host:1", "has an invalid host"},
           {"my host:1", "has an invalid host"},
       }) {
    const absl::Status status = ParseServerAddress(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(what), HasSubstr("expected HOST:PORT")));
  }
}

}  // namespace
}  // namespace chorale::client
