#include "server/rpc/reply_memory.h"

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(ReplyMemoryTest, AClientAloneGetsHalf) {
  ReplyMemory memory(100);
  EXPECT_TRUE(memory.TryTake("a", 30));
  EXPECT_TRUE(memory.TryTake("a", 20));
  EXPECT_FALSE(memory.TryTake("a", 1));
  EXPECT_TRUE(memory.TryTake("a", 0));
  memory.GiveBack("a", 30);
  EXPECT_FALSE(memory.TryTake("a", 31));
  EXPECT_TRUE(memory.TryTake("a", 30));
}

TEST(ReplyMemoryTest, TheNextClientGetsHalfOfWhatIsLeft) {
  ReplyMemory memory(120);
  EXPECT_TRUE(memory.TryTake("a", 60));
  EXPECT_TRUE(memory.TryTake("b", 30));
  EXPECT_FALSE(memory.TryTake("b", 1));
  EXPECT_TRUE(memory.TryTake("c", 15));
  EXPECT_FALSE(memory.TryTake("a", 1));
  memory.GiveBack("a", 60);
  memory.GiveBack("c", 15);
  EXPECT_TRUE(memory.TryTake("b", 30));
  EXPECT_FALSE(memory.TryTake("b", 1));
}

}  // namespace
}  // namespace chorale
