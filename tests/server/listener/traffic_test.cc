#include "server/listener/traffic.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/listener/listen.h"
#include "tests/eventually.h"
#include "tests/server/listener/sockets.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TrafficTest, CountsWhatAConnectionHasReceived) {
  const auto sockets = ListenOn("127.0.0.1:0");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  const FileDescriptor client = Connect(LocalPort(sockets->front()));
  const FileDescriptor server(accept(sockets->front().get(), nullptr, nullptr));
  EXPECT_EQ(ReceivedBytes(server.get()), 0);
  Send(client, std::string(1000, 'x'));
  EXPECT_TRUE(Eventually([&] { return ReceivedBytes(server.get()) == 1000; }));
  // Read or not.
  char buffer[1000];
  EXPECT_EQ(read(server.get(), buffer, sizeof(buffer)), 1000);
  EXPECT_EQ(ReceivedBytes(server.get()), 1000);
}

TEST(TrafficTest, TheBusiestAreTheFewestThatSendHalf) {
  EXPECT_THAT(Busiest({}), IsEmpty());
  EXPECT_THAT(Busiest({0, 0}), IsEmpty());
  EXPECT_THAT(Busiest({5}), ElementsAre(0));
  EXPECT_THAT(Busiest({1, 70, 2, 71, 3}), ElementsAre(3, 1));
  EXPECT_THAT(Busiest({1, 99}), ElementsAre(1));
  EXPECT_THAT(Busiest({10, 50, 40}), ElementsAre(1));
}

}  // namespace
}  // namespace chorale
