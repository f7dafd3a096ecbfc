// Rows that several threads append, while calls run and contexts change.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/appended_rows.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

class EngineConcurrentAppendsTest : public AppendFixture {};

// Appends to one context and to many, by several threads, while calls run.
TEST_F(EngineConcurrentAppendsTest, ConcurrentAppendsAreAllKept) {
  backend_options_.context_pool_bytes = 200 * 64;  // contexts are evicted, too
  options_.max_appended_share = 1000;              // nothing is encoded anew
  StartEngine();
  constexpr int kThreads = 4;
  constexpr int kAppends = 12;
  Register("shared");
  for (int i = 0; i < kThreads; ++i) Register(absl::StrCat("c", i));
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i] {
      const std::string own = absl::StrCat("c", i);
      for (int k = 0; k < kAppends; ++k) {
        const auto seed = static_cast<uint64_t>(100 + i * kAppends + k);
        MustAppend("shared", 1, seed);
        const AppendOutcome outcome = MustAppend(own, 1 + k % 3, seed);
        EXPECT_EQ(Answering(own), outcome.context.record.digest);
        Answering("shared");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Record("shared").rows, 10 + kThreads * kAppends);
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_EQ(Record(absl::StrCat("c", i)).rows, 10 + 2 * kAppends);
  }
  EXPECT_EQ(Answering("shared"), Record("shared").digest);
}

TEST_F(EngineConcurrentAppendsTest, AppendsWhileTheContextIsDeletedAndReplaced) {
  StartEngine();
  Register("c");
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    for (uint64_t seed = 2; !stop; ++seed) {
      if (seed % 3 == 0) engine_->DeleteContext(kTenant, "c").IgnoreError();
      const RegisterRequest replace{.context = "c", .model = "", .replace = true};
      EXPECT_TRUE(engine_->Register(kTenant, replace, MakeDataset(10, seed), StoreQuota()).ok());
    }
  });
  int appended = 0;
  for (int i = 0; i < 200; ++i) {
    const auto outcome = Append({.context = "c"}, NewRows(1 + i % 2, 5));
    appended += outcome.ok() ? 1 : 0;
    EXPECT_TRUE(outcome.ok() || absl::IsNotFound(outcome.status())) << outcome.status();
    auto recorder = std::make_shared<SampleRecorder>();
    engine_->Sample(call_, SampleOf("c", 1, 1), recorder);
    const absl::Status status = recorder->Wait();
    EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
  }
  stop = true;
  changer.join();
  EXPECT_GT(appended, 0);
  EXPECT_EVENTUALLY(Answering("c") == Record("c").digest);  // it may be encoded anew
}

}  // namespace
}  // namespace chorale::testing
