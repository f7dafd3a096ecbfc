#include "server/process/executor.h"

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/byte_budget.h"

namespace chorale {
namespace {

TEST(ExecutorTest, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    Executor executor(1, Executor::kUnbounded);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(executor.TryRun("a", [&order, i] { order.push_back(i); }));
    }
  }
  ASSERT_EQ(order.size(), 100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(ExecutorTest, AClientHasAtMostAsManyPlacesAsAreFree) {
  std::promise<void> gate;
  std::promise<void> running;
  std::atomic<int> ran{0};
  {
    Executor executor(1, 5);
    ASSERT_TRUE(executor.TryRun("a", [&] {
      running.set_value();
      gate.get_future().wait();
      ++ran;
    }));
    running.get_future().wait();  // the first task has left the queue
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(executor.TryRun("a", [&] { ++ran; }));
    EXPECT_FALSE(executor.TryRun("a", [&] { ran += 100; }));
    EXPECT_TRUE(executor.TryRun("b", [&] { ++ran; }));
    EXPECT_FALSE(executor.TryRun("b", [&] { ran += 100; }));
    EXPECT_TRUE(executor.TryRun("c", [&] { ++ran; }));
    EXPECT_EQ(executor.waiting(), 5);
    EXPECT_FALSE(executor.TryRun("d", [&] { ran += 100; }));
    gate.set_value();
  }
  EXPECT_EQ(ran, 6);  // all queued tasks ran before the destructor returned
}

TEST(ExecutorTest, ClientsTakeTurns) {
  std::promise<void> gate;
  std::vector<int> order;
  {
    Executor executor(1, Executor::kUnbounded);
    ASSERT_TRUE(executor.TryRun("a", [&] { gate.get_future().wait(); }));
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(executor.TryRun("a", [&order, i] { order.push_back(i); }));
    }
    ASSERT_TRUE(executor.TryRun("b", [&order] { order.push_back(10); }));
    gate.set_value();
  }
  EXPECT_THAT(order,
              testing::AnyOf(testing::ElementsAre(0, 10, 1, 2), testing::ElementsAre(10, 0, 1, 2)));
}

TEST(ExecutorTest, ThreadsRunTasksAtTheSameTime) {
  // Each waits for the other: with one thread this would deadlock.
  std::promise<void> first;
  std::promise<void> second;
  Executor executor(2, Executor::kUnbounded);
  ASSERT_TRUE(executor.TryRun("a", [&] {
    first.set_value();
    second.get_future().wait();
  }));
  ASSERT_TRUE(executor.TryRun("a", [&] {
    first.get_future().wait();
    second.set_value();
  }));
}

TEST(ExecutorTest, TasksMayHoldWhatCannotBeCopied) {
  std::atomic<int> result{0};
  {
    Executor executor(1, 1);
    auto value = std::make_unique<int>(7);
    ASSERT_TRUE(executor.TryRun("a", [&result, value = std::move(value)] { result = *value; }));
  }
  EXPECT_EQ(result, 7);
}

TEST(ByteBudgetTest, SharesAreGivenBack) {
  ByteBudget budget(100);
  {
    ByteReservation a(&budget);
    ByteReservation b(&budget);
    EXPECT_TRUE(a.GrowTo(60));
    EXPECT_TRUE(a.GrowTo(50));  // reservations do not shrink
    EXPECT_EQ(budget.used(), 60);
    EXPECT_FALSE(b.GrowTo(41));
    EXPECT_EQ(budget.used(), 60);
    EXPECT_TRUE(b.GrowTo(40));
    EXPECT_FALSE(a.GrowTo(61));
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST(ByteBudgetTest, NeverOverTheLimitFromManyThreads) {
  ByteBudget budget(1000);
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        if (budget.TryAcquire(7)) ++taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 1000 / 7);
  EXPECT_EQ(budget.used(), 7 * (1000 / 7));
}

}  // namespace
}  // namespace chorale
