#include "base/fair_queue.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

std::vector<int> PopAll(FairQueue<int>* queue) {
  std::vector<int> items;
  while (!queue->empty()) items.push_back(queue->Pop());
  return items;
}

TEST(FairQueueTest, TheItemsOfAClientKeepTheirOrder) {
  FairQueue<int> queue;
  for (int i = 0; i < 5; ++i) queue.Push("a", i);
  EXPECT_EQ(queue.size(), 5);
  EXPECT_EQ(queue.size_of("a"), 5);
  EXPECT_EQ(queue.size_of("b"), 0);
  EXPECT_THAT(PopAll(&queue), testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(queue.size_of("a"), 0);
}

TEST(FairQueueTest, ClientsTakeTurnsHoweverManyItemsTheyHave) {
  FairQueue<int> queue;
  for (int i = 0; i < 100; ++i) queue.Push("a", i);
  EXPECT_EQ(queue.Pop(), 0);
  queue.Push("b", 1000);
  queue.Push("b", 1001);
  queue.Push("c", 2000);
  std::vector<int> first;
  for (int i = 0; i < 6; ++i) first.push_back(queue.Pop());
  EXPECT_THAT(first, testing::ElementsAre(1, 1000, 2000, 2, 1001, 3));
  EXPECT_EQ(queue.size(), 96);
}

TEST(FairQueueTest, AClientThatComesBackWaitsForItsTurn) {
  FairQueue<int> queue;
  queue.Push("a", 0);
  queue.Push("b", 10);
  queue.Push("b", 11);
  EXPECT_EQ(queue.Pop(), 0);
  queue.Push("a", 1);
  EXPECT_THAT(PopAll(&queue), testing::ElementsAre(10, 1, 11));
}

TEST(FairQueueTest, WhoIsPassedOverKeepsItsTurn) {
  FairQueue<int> queue;
  queue.Push("a", 0);
  queue.Push("b", 10);
  queue.Push("c", 20);
  const auto not_a = [](const std::string& client) { return client != "a"; };
  EXPECT_EQ(queue.PopIf(not_a), 10);
  EXPECT_EQ(queue.Pop(), 0);
  EXPECT_EQ(queue.PopIf(not_a), 20);
  queue.Push("a", 1);
  EXPECT_EQ(queue.PopIf(not_a), std::nullopt);
  EXPECT_EQ(queue.size(), 1);
}

}  // namespace
}  // namespace chorale
