#include "engine/backend/cpu/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale::cpu {
namespace {

using ::testing::Each;

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEveryTaskOnce) {
  const std::unique_ptr<ThreadPool> pool = *ThreadPool::Create(GetParam());
  ASSERT_EQ(pool->threads(), GetParam());
  for (int64_t tasks : {0, 1, 2, 3, 100}) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      std::vector<std::atomic<int>> runs(tasks);
      pool->Run(tasks, [&](int64_t task, int thread) {
        ASSERT_GE(thread, 0);
        ASSERT_LT(thread, GetParam());
        ++runs[task];
      });
      for (const std::atomic<int>& count : runs) ASSERT_EQ(count, 1);
    }
  }
}

TEST_P(ThreadPoolTest, OneTaskAtATimePerThread) {
  const std::unique_ptr<ThreadPool> pool = *ThreadPool::Create(GetParam());
  std::vector<std::atomic<int>> inside(GetParam());
  std::atomic<bool> crowded = false;
  pool->Run(300, [&](int64_t task, int thread) {
    if (++inside[thread] != 1) crowded = true;
    std::this_thread::yield();
    --inside[thread];
  });
  EXPECT_FALSE(crowded);
}

// What tasks wrote is visible to the caller without further ado.
TEST_P(ThreadPoolTest, ResultsAreVisibleAfterRun) {
  const std::unique_ptr<ThreadPool> pool = *ThreadPool::Create(GetParam());
  std::vector<int> results(64);
  for (int round = 1; round <= 200; ++round) {
    pool->Run(64, [&](int64_t task, int thread) { results[task] = round; });
    ASSERT_THAT(results, Each(round));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

// Two tasks that wait for each other finish only if two threads run them.
TEST(ThreadPoolTest, ThreadsWorkAtTheSameTime) {
  const std::unique_ptr<ThreadPool> pool = *ThreadPool::Create(2);
  std::atomic<int> arrived = 0;
  std::atomic<bool> met = true;
  pool->Run(2, [&](int64_t task, int thread) {
    ++arrived;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 2) {
      if (std::chrono::steady_clock::now() > deadline) {
        met = false;
        return;
      }
      std::this_thread::yield();
    }
  });
  EXPECT_TRUE(met);
}

}  // namespace
}  // namespace chorale::cpu
