#include "base/worker_threads.h"

#include <string>
#include <vector>

#include "base/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(WorkerThreadsTest, ClientsTakeTurns) {
  std::vector<std::string> done;  // the thread's until it has ended
  Notification begun;
  Notification go_on;
  Notification last;
  WorkerThreads thread;
  thread.Add([&] {
    begun.Notify();
    go_on.Wait();
  });
  begun.Wait();
  const auto add = [&](const std::string& name, const std::string& client) {
    thread.Add([&done, name] { done.push_back(name); }, client);
  };
  for (const char* name : {"a1", "a2", "a3", "a4"}) add(name, "a");
  add("b1", "b");
  add("b2", "b");
  thread.Add([&] { last.Notify(); }, "a");
  EXPECT_EQ(thread.waiting(), 7);
  go_on.Notify();
  last.Wait();
  EXPECT_THAT(done, testing::ElementsAre("a1", "b1", "a2", "b2", "a3", "a4"));
}

TEST(WorkerThreadsTest, JobsRunAtTheSameTime) {
  constexpr int kThreads = 3;
  std::vector<Notification> begun(kThreads);
  Notification go_on;
  WorkerThreads threads(kThreads);
  for (Notification& each : begun) {
    threads.Add([&] {
      each.Notify();
      go_on.Wait();
    });
  }
  for (Notification& each : begun) each.Wait();
  EXPECT_EQ(threads.waiting(), 0);
  threads.Add([] {});
  EXPECT_EQ(threads.waiting(), 1);  // all threads are busy
  go_on.Notify();
}

}  // namespace
}  // namespace chorale
