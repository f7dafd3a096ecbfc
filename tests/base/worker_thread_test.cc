#include "base/worker_thread.h"

#include <string>
#include <vector>

#include "base/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(WorkerThreadTest, ClientsTakeTurns) {
  std::vector<std::string> done;  // the thread's until it has ended
  Notification begun;
  Notification go_on;
  Notification last;
  WorkerThread thread;
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

}  // namespace
}  // namespace chorale
