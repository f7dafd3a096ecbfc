// Contexts with appended rows in a ContextCache that await a predecessor, which is being encoded.
#include <iterator>
#include <utility>
#include <vector>

#include "engine/backend/flop_model.h"
#include "engine/context/context_cache.h"
#include "gtest/gtest.h"
#include "tests/engine/context/cache_appends_fixture.h"
#include "tests/engine/small_model.h"

namespace chorale::testing {
namespace {

using ContextCacheAwaitedTest = CacheAppendsFixture;

TEST_F(ContextCacheAwaitedTest, AnEncodingInFlightIsThePrefixOfWhatFollows) {
  options_.context_pool_bytes = 1280;
  MakeCache();
  const Context a = Make(4);
  Acquire(a).Reset();
  ASSERT_EQ(log_.encodings, 1);
  const Context b = Append(a, 1), c = Append(b, 2), d = Append(c, 3);
  b->record.dataset_bytes = 1000;
  const int64_t bytes = cache_->EncodingBytes();
  auto pin_b = Succeed(a, b);
  ASSERT_TRUE(pin_b);
  EXPECT_TRUE(pin_b.keeps_prefix());
  EXPECT_FALSE(pin_b.waits_for_room()) << "it waits for the encoding";
  EXPECT_EQ(cache_->EncodingBytes(), bytes + 1000) << "with its data";
  auto pin_c = Succeed(b, c);
  pin_b.Reset();
  auto pin_d = Succeed(c, d);
  pin_c.Reset();
  EXPECT_EQ(cache_->bytes_in_use(), 4 * 64) << "what waits has no space";
  EXPECT_EQ(cache_->EncodeFlopsLeft(),
            EncodeFlops(model_->info.config, {.rows = 4}) +
                EncodeFlops(model_->info.config, {.rows = 10}, {4, 5, 7}, 4));
  Step();
  EXPECT_EQ(log_.encodings, 1);
  Settle();
  EXPECT_EQ(log_.encodings, 2);
  EXPECT_EQ(log_.encoded_rows, 4 + 1 + 2 + 3);
  EXPECT_EQ(Copied(), 4);
  EXPECT_EQ(log_.all_encodings().back().append_starts, (std::vector<int64_t>{4, 5, 7}));
  EXPECT_NE(pin_d.resident(), nullptr);
  EXPECT_EQ(cache_->bytes_in_use(), 10 * 64) << "the predecessor goes";
}

// Rows arrive while the rows of the append before are encoded.
TEST_F(ContextCacheAwaitedTest, OneEncodingOfAContextIsInFlightAtATime) {
  options_.context_pool_bytes = 6400;
  MakeCache();
  Context latest = Make(2);
  auto pin = Acquire(latest);
  for (int i = 0; i < 20; ++i) {
    const Context next = Append(latest, 1);
    auto next_pin = Succeed(latest, next);
    if (next_pin) pin = std::move(next_pin);
    latest = next;
    cache_->PlaceWaiting(now_);
    EXPECT_LE(std::ssize(cache_->jobs()), 1);
    Step();
  }
  Settle();
  EXPECT_TRUE(Resident(latest));
  EXPECT_EQ(log_.encoded_rows, 2 + 20) << "each row once";
  EXPECT_LE(log_.encodings, 1 + 10);
}

TEST_F(ContextCacheAwaitedTest, CallsForEarlierRowsGetTheirContextOneAfterAnother) {
  options_.context_pool_bytes = 6400;
  MakeCache();
  const Context a = Make(4);
  const auto pin_a = Acquire(a);
  const Context b = Append(a, 1), c = Append(b, 2);
  const auto pin_b = Acquire(b);
  Succeed(a, b).Reset();
  const auto pin_c = Acquire(c);
  Succeed(b, c).Reset();
  while (pin_a.resident() == nullptr) Step();
  cache_->PlaceWaiting(now_);
  EXPECT_EQ(cache_->counts().encoding, 1) << "b, of which c is a continuation";
  EXPECT_TRUE(cache_->TakeReads().empty()) << "its data was kept: the store has that of c";
  Settle();
  EXPECT_NE(pin_b.resident(), nullptr);
  EXPECT_NE(pin_c.resident(), nullptr);
  EXPECT_EQ(Copied(), 5);
  EXPECT_EQ(log_.encoded_rows, 4 + 1 + 2);
}

TEST_F(ContextCacheAwaitedTest, TheEncodingStaysIfTheCallForWhatFollowsEnds) {
  options_.context_pool_bytes = 1280;
  MakeCache();
  const Context a = Make(4);
  Acquire(a).Reset();
  const Context b = Append(a, 1);
  auto call = Acquire(b);
  const auto pin = Succeed(a, b);
  ASSERT_TRUE(pin);
  call.Reset();
  Settle();
  EXPECT_TRUE(Resident(b));
  EXPECT_EQ(log_.encoded_rows, 5);
}

TEST_F(ContextCacheAwaitedTest, APredecessorWhoseDataCannotBeReadIsNotAwaited) {
  options_.context_pool_bytes = 1280;
  MakeCache();
  const Context a = Make(4);
  a->data.reset();
  const auto pin_a = *cache_->Acquire(a, now_);
  const Context b = Append(a, 1);
  const auto pin_b = Acquire(b);
  EXPECT_FALSE(pin_b.waits_for_room());
  ASSERT_EQ(cache_->TakeReads(), (std::vector<ContextCache::ContextPointer>{a}));
  cache_->OnData(a, absl::NotFoundError("replaced"));
  Succeed(a, b).Reset();
  cache_->PlaceWaiting(now_);
  EXPECT_TRUE(cache_->TakeReads().empty()) << "the data of b is there";
  Settle();
  EXPECT_NE(pin_b.resident(), nullptr);
  EXPECT_EQ(log_.encoded_rows, 5);
}

TEST_F(ContextCacheAwaitedTest, WithoutRoomForBothTheEncodingInFlightEnds) {
  const Context a = Make(6);
  Acquire(a).Reset();
  const Context b = Append(a, 2);
  EXPECT_FALSE(Succeed(a, b)) << "the next call encodes all rows";
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  EXPECT_NE(b->data, nullptr);
}

TEST_F(ContextCacheAwaitedTest, WithoutRoomOfTheTenantTheEncodingInFlightIsNotAwaited) {
  const Context a = Make(3);
  a->data = std::make_unique<ContextData>(ZerosFor(*a));
  cache_->Acquire(a, now_, 5 * 64)->Reset();
  const Context b = Append(a, 1);
  EXPECT_FALSE(Succeed(a, b));
  EXPECT_EQ(cache_->bytes_in_use(), 0);
}

TEST_F(ContextCacheAwaitedTest, ADeletedContextTakesTheEncodingThatItAwaitsAlong) {
  const Context a = Make(3);
  Acquire(a).Reset();
  const Context b = Append(a, 1);
  auto pin = Succeed(a, b);
  ASSERT_TRUE(pin);
  EXPECT_FALSE(pin.purgeable());
  b->deleted = true;
  EXPECT_TRUE(pin.purgeable());
  cache_->PurgeDeleted();
  pin.Reset();
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  EXPECT_TRUE(cache_->jobs().empty());
}

TEST_F(ContextCacheAwaitedTest, ASmallerPoolEndsTheEncodingThatIsAwaited) {
  const Context a = Make(4);
  Acquire(a).Reset();
  const Context b = Append(a, 1);
  const auto pin = Succeed(a, b);
  ASSERT_TRUE(pin);
  EXPECT_TRUE(pin.keeps_prefix());
  cache_->LimitPool(5 * 64);
  Settle();
  EXPECT_NE(pin.resident(), nullptr);
  EXPECT_EQ(cache_->bytes_in_use(), 5 * 64);
}

TEST_F(ContextCacheAwaitedTest, APredecessorThatIsRestoredIsAwaited) {
  options_.host_context_pool_bytes = 640;
  MakeCache();
  const Context a = Make(3);
  MakeResident(a);
  MakeResident(Make(10));
  auto call = Acquire(a);
  while (!call.restoring()) {
    cache_->PlaceWaiting(now_);
    if (!call.restoring()) Step();
  }
  const Context b = Append(a, 1);
  const auto pin = Succeed(a, b);
  ASSERT_TRUE(pin);
  call.Reset();
  Settle();
  EXPECT_NE(pin.resident(), nullptr);
  EXPECT_EQ(Copied(), 3);
}

}  // namespace
}  // namespace chorale::testing
