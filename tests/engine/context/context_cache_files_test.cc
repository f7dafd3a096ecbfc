// The files of a ContextCache, on a backend whose contexts the host reaches and on one where it
// does not. The files are in memory, and are read and written when a test says so.
#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/context/context_cache.h"
#include "gtest/gtest.h"
#include "tests/engine/fake_backend.h"
#include "tests/engine/small_model.h"

namespace chorale {
namespace {

using testing::FakeBackendLog;
using testing::FakeBackendOptions;
using testing::NewFakeBackend;
using testing::ZerosFor;
using Task = ContextCache::FileTask;

struct Counts : public MetricsSink {
  void Lookup(ContextLookup result) override { ++lookups[static_cast<size_t>(result)]; }
  void Eviction(EvictionReason reason) override { ++evictions[static_cast<size_t>(reason)]; }
  void RestoreTime(absl::Duration time) override { ++restores; }

  std::array<int64_t, 4> lookups{};
  std::array<int64_t, 4> evictions{};
  int64_t restores = 0;
};

enum class Host { kReachesContexts, kHasPool };

class CacheFilesTest : public ::testing::TestWithParam<Host> {
 protected:
  using Context = std::shared_ptr<RegisteredContext>;

  CacheFilesTest() {
    options_.context_pool_bytes = 640;  // ten rows
    options_.host_reaches_contexts = GetParam() == Host::kReachesContexts;
    if (GetParam() == Host::kHasPool) options_.host_context_pool_bytes = 640;
    MakeCache();
  }
  void MakeCache() {
    cache_.reset();
    model_->weights.reset();
    backend_ = NewFakeBackend(options_, &log_);
    model_->weights = *backend_->AddModel(Model());
    cache_ = std::make_unique<ContextCache>(backend_.get(), &metrics_);
    cache_->UseFiles(
        [this](const RegisteredContext& context) { return files_.contains(&context); });
  }

  Context Make(int64_t rows) {
    all_.push_back(testing::NewContext(model_, rows));
    return all_.back();
  }
  ContextCache::Pin Acquire(const Context& context) {
    return cache_->Acquire(context, now_).value();
  }

  // Reads, encodes and copies until nothing can be done without a file.
  void Compute() {
    for (;;) {
      cache_->PlaceWaiting(now_);
      for (const auto& context : cache_->TakeReads()) cache_->OnData(context, ZerosFor(*context));
      for (Task& task : cache_->TakeFileTasks(now_)) tasks_.push_back(std::move(task));
      if (cache_->jobs().empty()) return;
      ASSERT_TRUE(backend_->Advance({{cache_->jobs().front().work, 100}}).ok());
      cache_->CollectJobs(now_);
    }
  }
  // Does one task as the thread for files does it.
  void DoTask() {
    const Task task = std::move(tasks_.front());
    tasks_.erase(tasks_.begin());
    const RegisteredContext* const key = task.context.get();
    if (task.kind == Task::Kind::kWrite) {
      std::vector<char> kv(static_cast<size_t>(task.context->resident_bytes));
      if (task.write_from->Copy(0, absl::MakeSpan(kv))) files_[key] = std::move(kv);
      cache_->OnFileWritten();
    } else if (!files_.contains(key) || damaged_) {
      if (!task.read_to.empty()) task.read_to[0] = 77;
      files_.erase(key);
      cache_->OnFileRead(task.context, absl::DataLossError("damaged"), now_);
    } else {
      std::copy(files_[key].begin(), files_[key].end(), task.read_to.begin());
      cache_->OnFileRead(task.context, "", now_);
    }
  }
  void Settle() {
    Compute();
    while (!tasks_.empty()) {
      DoTask();
      Compute();
    }
  }
  void MakeResident(const Context& context) {
    const auto pin = Acquire(context);
    Settle();
    ASSERT_NE(pin.resident(), nullptr);
    // Checks that its keys and values lie there.
    backend_->NewRows(pin.resident(), FeatureMatrix{1, 1, {0}}, PoolRange());
  }
  // From the device and from the host.
  void EvictAll() {
    for (int i = 0; i < 2; ++i) {
      const Context large = Make(10);
      MakeResident(large);
      large->deleted = true;
      cache_->PurgeDeleted();
      files_.erase(large.get());
    }
  }
  static bool Resident(const Context& context) { return context->state == ContextState::kResident; }
  int64_t lookups(ContextLookup result) const {
    return metrics_.lookups[static_cast<size_t>(result)];
  }

  FakeBackendOptions options_;
  FakeBackendLog log_;
  Counts metrics_;
  std::map<const RegisteredContext*, std::vector<char>> files_;
  bool damaged_ = false;
  std::vector<Context> all_;  // so that no address is used twice
  std::vector<Task> tasks_;
  std::unique_ptr<Backend> backend_;
  const std::shared_ptr<ServedModel> model_ = testing::NewServedModel();
  std::unique_ptr<ContextCache> cache_;
  absl::Time now_ = absl::UnixEpoch();
};

INSTANTIATE_TEST_SUITE_P(Hosts, CacheFilesTest,
                         ::testing::Values(Host::kReachesContexts, Host::kHasPool));

TEST_P(CacheFilesTest, WhatWasEncodedOnceIsReadFromThenOn) {
  const Context context = Make(6);
  MakeResident(context);
  EXPECT_EQ(log_.encodings, 1);
  EXPECT_TRUE(files_.contains(context.get()));
  EvictAll();
  const int64_t encodings = log_.encodings;
  MakeResident(context);
  EXPECT_EQ(log_.encodings, encodings);
  EXPECT_EQ(metrics_.restores, 1);
  EXPECT_EQ(lookups(ContextLookup::kDiskHit), 1);
  // So does another process.
  MakeCache();
  MakeResident(context);
  EXPECT_EQ(log_.encodings, encodings);
  EXPECT_EQ(cache_->counts().resident, 1);
  EXPECT_EQ(cache_->counts().host_bytes, 0);
}

// A context that has a file, but no room in the host's pool to read it to, is encoded. The file
// does not matter any more when it comes back from where it was evicted to.
TEST_P(CacheFilesTest, AFileThatFoundNoRoomIsNotReadOverASavedContext) {
  if (GetParam() == Host::kReachesContexts) GTEST_SKIP() << "it needs no room";
  const Context loading = Make(6), context = Make(4), large = Make(10);
  for (const Context& each : {loading, context}) {
    files_[each.get()] = std::vector<char>(static_cast<size_t>(each->resident_bytes), 5);
  }
  options_.host_context_pool_bytes = 448;  // seven rows: of one of them
  MakeCache();
  auto first = Acquire(loading);
  Compute();
  auto pin = Acquire(context);
  Compute();
  ASSERT_EQ(log_.encodings, 1) << "it was to be encoded";
  first.Reset();
  pin.Reset();
  Settle();
  loading->deleted = true;
  cache_->PurgeDeleted();
  MakeResident(large);  // evicts the context, which is saved
  EXPECT_EQ(cache_->counts().saved, 1);
  large->deleted = true;
  cache_->PurgeDeleted();
  EXPECT_EQ(lookups(ContextLookup::kHostHit), 0);
  MakeResident(context);
  EXPECT_EQ(lookups(ContextLookup::kHostHit), 1);
  EXPECT_EQ(cache_->counts().host_bytes, 0);
}

TEST_P(CacheFilesTest, ContextsServeWhileTheyAreWritten) {
  const Context context = Make(6);
  auto pin = Acquire(context);
  Compute();
  ASSERT_EQ(tasks_.size(), 1u);
  EXPECT_NE(pin.resident(), nullptr);
  EXPECT_TRUE(Resident(context));
  EXPECT_NE(Acquire(context).resident(), nullptr);
  EXPECT_EQ(lookups(ContextLookup::kHit), 1);
  DoTask();
}

TEST_P(CacheFilesTest, AFileThatCannotBeUsedCostsAnEncoding) {
  const Context context = Make(6);
  files_[context.get()] = {};
  damaged_ = true;
  MakeResident(context);
  EXPECT_EQ(log_.encodings, 1);
  EXPECT_EQ(files_[context.get()].size(), 6u * 64) << "is written anew";
  damaged_ = false;
  MakeCache();
  MakeResident(context);
  EXPECT_EQ(log_.encodings, 1);
}

TEST_P(CacheFilesTest, AnotherContextWaitsForAQuickWrite) {
  if (GetParam() == Host::kHasPool) GTEST_SKIP() << "it is written from a copy";
  const Context context = Make(6), large = Make(10);
  Acquire(context).Reset();
  Compute();
  ASSERT_EQ(tasks_.size(), 1u);
  EXPECT_EQ(cache_->NextPlacing(), absl::InfiniteFuture()) << "nothing waits";
  auto pin = Acquire(large);
  Compute();
  EXPECT_TRUE(pin.waits_for_room());
  EXPECT_TRUE(Resident(context));
  DoTask();
  Settle();
  EXPECT_NE(pin.resident(), nullptr);
  EXPECT_FALSE(Resident(context));
  EXPECT_TRUE(files_.contains(context.get()));
}

TEST_P(CacheFilesTest, NoContextWaitsForAWriteThatHangs) {
  const Context context = Make(6), large = Make(10), third = Make(3);
  Acquire(context).Reset();
  Compute();
  ASSERT_EQ(tasks_.size(), 1u);
  auto pin = Acquire(large);
  Compute();
  if (GetParam() == Host::kReachesContexts) {
    EXPECT_TRUE(pin.waits_for_room());
    EXPECT_EQ(cache_->NextPlacing(), now_ + ContextCache::kWriteGrace);
    now_ = cache_->NextPlacing();
    Compute();
  }
  EXPECT_NE(pin.resident(), nullptr);
  EXPECT_FALSE(Resident(context));
  EXPECT_EQ(cache_->NextPlacing(), absl::InfiniteFuture());
  ASSERT_EQ(tasks_.size(), 1u) << "nothing else is written meanwhile";
  pin.Reset();
  Settle();  // the write comes back
  EXPECT_EQ(files_.contains(context.get()), GetParam() == Host::kHasPool);
  EXPECT_TRUE(files_.contains(large.get()));
  MakeResident(third);
  EXPECT_TRUE(files_.contains(third.get()));
}

// Which saved contexts make room on the host is decided when the device has room.
TEST_P(CacheFilesTest, WhatWaitsForTheDeviceDropsNothingOnTheHost) {
  if (GetParam() == Host::kReachesContexts) GTEST_SKIP() << "it needs no room";
  options_.host_context_pool_bytes = 16 * 64;
  MakeCache();
  const Context saved = Make(10), busy = Make(6), loading = Make(10);
  MakeResident(saved);
  files_[loading.get()] = std::vector<char>(640);
  auto pin = Acquire(busy);  // evicts the first
  Settle();
  ASSERT_EQ(cache_->counts().saved, 1);
  const auto before = metrics_.evictions;
  auto waiting = Acquire(loading);
  Compute();
  EXPECT_TRUE(waiting.waits_for_room());
  EXPECT_EQ(metrics_.evictions, before);
}

TEST_P(CacheFilesTest, OnlyOneIsWrittenAtATime) {
  const Context a = Make(3), b = Make(3);
  const auto pin_a = Acquire(a), pin_b = Acquire(b);
  Compute();
  EXPECT_EQ(tasks_.size(), 1u);
  DoTask();
  Compute();
  EXPECT_EQ(tasks_.size(), 1u);
  DoTask();
  EXPECT_EQ(files_.size(), 2u);
}

TEST_P(CacheFilesTest, WhatIsDeletedWhileItIsWrittenGivesItsMemoryBackAtOnce) {
  const Context context = Make(6);
  Acquire(context).Reset();
  Compute();
  ASSERT_EQ(tasks_.size(), 1u);
  context->deleted = true;
  cache_->PurgeDeleted();
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  DoTask();
  EXPECT_EQ(files_.contains(context.get()), GetParam() == Host::kHasPool)
      << "whose thread looks at the context itself";
  EXPECT_EQ(cache_->counts().host_bytes, 0);
  EXPECT_EQ(cache_->counts(), ContextCounts());
}

TEST_P(CacheFilesTest, WhatIsDeletedWhileItIsReadKeepsItsMemoryUntilThen) {
  for (const bool damaged : {false, true}) {
    damaged_ = damaged;
    const Context context = Make(6);
    files_[context.get()] = std::vector<char>(6 * 64);
    auto pin = Acquire(context);
    Compute();
    ASSERT_EQ(tasks_.size(), 1u);
    EXPECT_EQ(cache_->counts().restoring, 1);
    pin.Reset();
    context->deleted = true;
    cache_->PurgeDeleted();
    EXPECT_EQ(cache_->bytes_in_use(), 6 * 64);
    Settle();
    EXPECT_EQ(cache_->bytes_in_use(), 0);
    EXPECT_EQ(cache_->counts(), ContextCounts());
    EXPECT_EQ(log_.encodings, 0);
  }
}

TEST_P(CacheFilesTest, ReadingGoesOnWhenNobodyWaits) {
  const Context context = Make(6);
  MakeResident(context);
  MakeCache();
  Acquire(context).Reset();
  Settle();
  EXPECT_TRUE(Resident(context));
  EXPECT_EQ(log_.encodings, 1);
}

TEST_P(CacheFilesTest, FilesCanStopAtAnyTime) {
  for (const bool writes : {false, true}) {
    MakeCache();
    const Context context = Make(6);
    if (!writes) files_[context.get()] = std::vector<char>(6 * 64);
    Acquire(context).Reset();
    Compute();
    ASSERT_EQ(tasks_.size(), 1u);
    tasks_.clear();
    cache_->StopFiles();
    cache_->Clear();
    EXPECT_EQ(cache_->counts(), ContextCounts());
    EXPECT_EQ(cache_->bytes_in_use(), 0);
  }
}

TEST_P(CacheFilesTest, WhatStaysResidentNeverMakesRoom) {
  const Context kept = Make(4), other = Make(6), large = Make(7);
  {
    auto pin = Acquire(kept);
    Settle();
    pin.StayResident();
    pin.StayResident();
  }
  EXPECT_EQ(cache_->counts().pinned_bytes, 4 * 64);
  MakeResident(other);
  auto waiting = Acquire(large);
  Settle();
  EXPECT_TRUE(waiting.waits_for_room());
  EXPECT_TRUE(Resident(kept));
  EXPECT_TRUE(Resident(other)) << "evicted in vain";
  kept->deleted = true;
  cache_->PurgeDeleted();
  EXPECT_EQ(cache_->counts().pinned_bytes, 0);
  Settle();
  EXPECT_NE(waiting.resident(), nullptr);
}

TEST_P(CacheFilesTest, EvictionsAndLookupsAreCountedByKind) {
  const Context a = Make(10), b = Make(10);
  MakeResident(a);
  MakeResident(b);  // a makes room
  MakeResident(a);
  EXPECT_EQ(lookups(ContextLookup::kMiss), 2);
  const auto evictions = [this](EvictionReason reason) {
    return metrics_.evictions[static_cast<size_t>(reason)];
  };
  if (GetParam() == Host::kReachesContexts) {
    EXPECT_EQ(lookups(ContextLookup::kDiskHit), 1);
    EXPECT_EQ(evictions(EvictionReason::kDropped), 2);
  } else {
    // Each is written by way of the host's pool, where the other one was saved.
    EXPECT_EQ(lookups(ContextLookup::kDiskHit) + lookups(ContextLookup::kHostHit), 1);
    EXPECT_EQ(evictions(EvictionReason::kSavedToHost) + evictions(EvictionReason::kDropped), 2);
    EXPECT_GE(evictions(EvictionReason::kHostPoolFull), 1);
  }
}

// Random requests, deletions, evictions, damage; tasks are done late.
TEST_P(CacheFilesTest, MemoryIsAccountedForWhateverHappens) {
  std::mt19937 random(11);
  std::vector<Context> contexts;
  for (int i = 0; i < 6; ++i) contexts.push_back(Make(1 + static_cast<int64_t>(random() % 5)));
  std::vector<ContextCache::Pin> pins;
  for (int i = 0; i < 4000; ++i) {
    Context& which = contexts[random() % contexts.size()];
    const size_t action = random() % 10;
    if (action < 4 && pins.size() < 4) {
      pins.push_back(Acquire(which));
    } else if (action < 7) {
      if (!pins.empty()) pins.erase(pins.begin() + static_cast<int64_t>(random() % pins.size()));
    } else if (action < 8) {
      which->deleted = true;
      cache_->PurgeDeleted();
      files_.erase(which.get());
      which = Make(1 + static_cast<int64_t>(random() % 5));
    } else if (!tasks_.empty()) {
      damaged_ = random() % 4 == 0;
      DoTask();
    }
    Compute();
    for (const auto& pin : pins) {
      if (pin.resident() != nullptr) {
        backend_->NewRows(pin.resident(), FeatureMatrix{1, 1, {0}}, PoolRange());
      }
    }
    ASSERT_LE(cache_->bytes_in_use(), 640);
  }
  pins.clear();
  Settle();
  for (const Context& context : contexts) context->deleted = true;
  cache_->PurgeDeleted();
  Settle();
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  EXPECT_EQ(cache_->counts(), ContextCounts());
  EXPECT_GT(metrics_.restores, 100);
}

}  // namespace
}  // namespace chorale
