#include "server/models/warm_on_start.h"

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/fake_engine.h"
#include "tests/support/eventually.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WarmOnStartTest : public ::testing::Test {
 protected:
  WarmOnStartTest() {
    engine_.on_warm = [this](const std::string& name) -> absl::StatusOr<ContextInfo> {
      warmed_.push_back(name);
      if (name == "missing") return absl::NotFoundError("no such context");
      return Info(name, 100);
    };
    engine_.on_newest = [this](int64_t) { return newest_; };
    engine_.pool_bytes = 300;
  }
  static ContextInfo Info(const std::string& name, int64_t bytes) {
    ContextInfo info;
    info.record.tenant = "default";
    info.record.name = name;
    info.resident_bytes = bytes;
    return info;
  }

  FakeEngine engine_;
  std::vector<std::string> warmed_;
  std::vector<ContextSize> newest_;
};

TEST_F(WarmOnStartTest, NothingIsAskedForNothing) {
  WarmOnStart(engine_, {}, 256);
  EXPECT_THAT(warmed_, IsEmpty());
}

TEST_F(WarmOnStartTest, NamedOnesArePinnedAndAMissingOneHoldsUpNone) {
  WarmOnStart(engine_, {"a", "missing", "other-tenant/b", "a", "c", "d", "e", "f"}, 256);
  EXPECT_THAT(warmed_, ElementsAre("a", "missing", "b", "c", "d", "e", "f"));
  EXPECT_EQ(engine_.pinned(), warmed_);
}

// Its calls end when a test says so.
class WaitingEngine : public FakeEngine {
 public:
  std::shared_ptr<Call> Warm(CallContext, WarmRequest, Callback<ContextInfo> done) override {
    MutexLock lock(&mutex_);
    waiting_.push_back(std::move(done));
    ++begun_;
    return nullptr;
  }
  int begun() {
    MutexLock lock(&mutex_);
    return begun_;
  }
  void EndOldest() {
    Callback<ContextInfo> done;
    {
      MutexLock lock(&mutex_);
      done = std::move(waiting_.front());
      waiting_.pop_front();
    }
    done(ContextInfo());
  }

 private:
  Mutex mutex_;
  std::deque<Callback<ContextInfo>> waiting_ ABSL_GUARDED_BY(mutex_);
  int begun_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(WarmOnStartTest, NoMoreAreAskedForAtATimeThanTheQueueTakes) {
  WaitingEngine engine;
  std::thread warming([&engine] { WarmOnStart(engine, {"a", "b", "c"}, 1); });
  for (int begun = 1; begun <= 3; ++begun) {
    EXPECT_TRUE(Eventually([&] { return engine.begun() >= begun; }));
    EXPECT_EQ(engine.begun(), begun);
    engine.EndOldest();
  }
  warming.join();
}

TEST_F(WarmOnStartTest, AStarStandsForTheNewestThatFitBesideTheNamedOnes) {
  newest_ = {{"default", "n1", 150},     {"default", "large", 200}, {"default", "named", 100},
             {"default", "unserved", 0}, {"default", "n2", 50},     {"default", "n3", 50}};
  WarmOnStart(engine_, {"*", "named"}, 256);
  EXPECT_THAT(warmed_, ElementsAre("named", "n1", "n2"));
  EXPECT_THAT(engine_.pinned(), ElementsAre("named"));
}

}  // namespace
}  // namespace chorale
