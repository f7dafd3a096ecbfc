#include "base/loopback.h"

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(LoopbackTest, KnowsThisMachine) {
  for (const char* address : {"127.0.0.1:50051", "127.255.0.9:1", "localhost:0", "[::1]:50051",
                              "unix:/run/chorale.sock"}) {
    EXPECT_TRUE(IsLoopbackAddress(address)) << address;
  }
}

// Others, and whatever might be another.
TEST(LoopbackTest, EverythingElseIsElsewhere) {
  for (const char* address : {"0.0.0.0:50051",
                              "[::]:50051",
                              "10.0.0.1:1",
                              "128.0.0.1:1",
                              "127.0.0.1",
                              "",
                              "127.0.0.1.example.org:1",
                              "127.0.0.256:1",
                              "127.0.1:1",
                              "127.0.0.-1:1",
                              "127.0.0.:1",
                              "127.0.0.1 :1",
                              "localhost.example.org:1",
                              "LOCALHOST.:1",
                              "::1:50051",
                              "127.0.0.1:1,10.0.0.1:1",
                              "ipv4:127.0.0.1:1,10.0.0.1:1",
                              "dns:///localhost:1",
                              "127.0.0.1@10.0.0.1:1",
                              ":50051"}) {
    EXPECT_FALSE(IsLoopbackAddress(address)) << address;
  }
}

}  // namespace
}  // namespace chorale
