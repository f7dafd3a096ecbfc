#include "server/net/traffic.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/net/listen.h"
#include "tests/server/net/sockets.h"
#include "tests/support/eventually.h"

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

constexpr int64_t kMiB = 1 << 20;

TEST(TrafficAllowanceTest, EndsWithAFlood) {
  TrafficAllowance slow(4 * kMiB);
  for (int second = 0; second < 1000; ++second) {
    EXPECT_FALSE(slow.IsExceeded(TrafficAllowance::kBytesASecond));
  }
  // At first there is enough for four messages, 20 MiB with what surrounds them.
  TrafficAllowance flood(4 * kMiB);
  for (int second = 0; second < 4; ++second) EXPECT_FALSE(flood.IsExceeded(5 * kMiB)) << second;
  EXPECT_TRUE(flood.IsExceeded(6 * kMiB));
  // A pause brings that back, and no more.
  TrafficAllowance with_pauses(4 * kMiB);
  EXPECT_FALSE(with_pauses.IsExceeded(20 * kMiB));
  for (int second = 0; second < 100; ++second) EXPECT_FALSE(with_pauses.IsExceeded(0));
  EXPECT_FALSE(with_pauses.IsExceeded(20 * kMiB));
  EXPECT_TRUE(with_pauses.IsExceeded(2 * kMiB));
}

TEST(TrafficAllowanceTest, LastsAsLongAsThereAreCallsOrMessages) {
  TrafficAllowance uploads(4 * kMiB);
  for (int second = 0; second < 1000; ++second) {
    for (int message = 0; message < 50; ++message) uploads.AddMessage();
    EXPECT_FALSE(uploads.IsExceeded(50 * 5 * kMiB)) << second;
  }
  // A message that takes long.
  TrafficAllowance calls(4 * kMiB);
  for (int call = 0; call < 50; ++call) calls.AddMessage();
  for (int second = 0; second < 50; ++second) EXPECT_FALSE(calls.IsExceeded(5 * kMiB)) << second;
  // What calls leave over does not last for ever.
  TrafficAllowance saved(4 * kMiB);
  for (int call = 0; call < 10'000; ++call) saved.AddMessage();
  EXPECT_FALSE(saved.IsExceeded(5'000 * 5 * kMiB));
  EXPECT_FALSE(saved.IsExceeded(TrafficAllowance::kMaxMessages * 5 * kMiB));
  EXPECT_TRUE(saved.IsExceeded(30 * kMiB));
}

}  // namespace
}  // namespace chorale
