// Contexts with appended rows in a ContextCache: their predecessors stay while they are copied.
#include <string>
#include <vector>

#include "engine/backend/flop_model.h"
#include "engine/context/context_cache.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/context/cache_appends_fixture.h"
#include "tests/engine/small_model.h"

namespace chorale::testing {
namespace {

using ContextCachePrefixTest = CacheAppendsFixture;

TEST_F(ContextCachePrefixTest, OnlyTheNewRowsAreEncoded) {
  const Context a = Make(4);
  MakeResident(a);
  const Context b = Append(a, 2);
  Succeed(a, b).Reset();
  EXPECT_EQ(cache_->bytes_in_use(), (4 + 6) * 64) << "the predecessor stays";
  EXPECT_FALSE(cache_->Acquire(a, now_).ok());
  Settle();
  EXPECT_TRUE(Resident(b));
  EXPECT_EQ(cache_->bytes_in_use(), 6 * 64) << "and goes with the encoding";
  EXPECT_EQ(log_.encoded_rows, 4 + 2);
  EXPECT_EQ(log_.all_encodings().back(),
            (FakeEncoding{b->record.shape(), log_.all_encodings().back().seed, {4}, 4}));
  // Checks that its keys and values lie there.
  backend_->NewRows(Acquire(b).resident(), FeatureMatrix{1, 1, {0}}, PoolRange());
}

TEST_F(ContextCachePrefixTest, ThePredecessorMayLoseItsLastPinBeforeItIsSucceeded) {
  const Context a = Make(4);
  auto pin = Acquire(a);
  Settle();
  MarkReplaced(a);
  pin.Reset();
  const Context b = Append(a, 2);
  Succeed(a, b).Reset();
  Settle();
  EXPECT_EQ(Copied(), 4);
}

TEST_F(ContextCachePrefixTest, WithoutAResidentPredecessorTheFirstCallEncodesAll) {
  const Context a = Make(4);
  const Context b = Append(a, 2);
  EXPECT_FALSE(Succeed(a, b));
  EXPECT_NE(b->data, nullptr) << "it belongs to the first call";
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  MakeResident(b);
  EXPECT_EQ(Copied(), 0);
  EXPECT_EQ(log_.encoded_rows, 6);
}

TEST_F(ContextCachePrefixTest, ACallMayComeFirst) {
  const Context a = Make(4);
  MakeResident(a);
  const Context b = Append(a, 2);
  MarkReplaced(a);
  const auto pin = Acquire(b);
  EXPECT_FALSE(cache_->AcquireSuccessor(b, now_));
  cache_->PurgeDeleted();
  Settle();
  EXPECT_NE(pin.resident(), nullptr);
  EXPECT_EQ(Copied(), 4);
}

// Between the change of the registration and the successor, another context may be deleted.
TEST_F(ContextCachePrefixTest, APredecessorStaysUntilTheCacheKnowsItsSuccessor) {
  const Context a = Make(4);
  auto call = Acquire(a);
  Settle();
  a->awaits_successor = true;
  MarkReplaced(a);
  cache_->PurgeDeleted();
  call.Reset();
  EXPECT_EQ(cache_->bytes_in_use(), 4 * 64);
  EXPECT_FALSE(cache_->Acquire(a, now_).ok());
  const Context b = Append(a, 1);
  const auto pin = cache_->AcquireSuccessor(b, now_);
  a->awaits_successor = false;
  cache_->PurgeDeleted();
  Settle();
  EXPECT_EQ(Copied(), 4);
  EXPECT_EQ(cache_->bytes_in_use(), 5 * 64);
}

// The longest prefix is chosen when the data arrives.
TEST_F(ContextCachePrefixTest, APredecessorThatIsResidentWhenTheDataArrivesIsCopied) {
  const Context a = Make(2);
  MakeResident(a);
  const Context b = Append(a, 1), c = Append(b, 1);
  b->data.reset();
  c->data.reset();
  auto pin_c = *cache_->Acquire(c, now_);
  auto pin_b = *cache_->Acquire(b, now_);
  cache_->OnData(b, ZerosFor(*b));
  ASSERT_TRUE(backend_->Advance({{cache_->jobs().front().work, 100}}).ok());
  cache_->CollectJobs(now_);
  ASSERT_TRUE(Resident(b));
  cache_->OnData(c, ZerosFor(*c));
  EXPECT_EQ(Copied(), 3);
  MarkReplaced(a);
  cache_->PurgeDeleted();
  EXPECT_EQ(cache_->bytes_in_use(), (3 + 4) * 64) << "a is no longer needed";
  Settle();
}

TEST_F(ContextCachePrefixTest, AnotherModelHasOtherKeys) {
  const Context a = Make(4);
  MakeResident(a);
  const Context b = Append(a, 2);
  const auto other = NewServedModel();
  other->weights = model_->weights;
  b->model = other;
  EXPECT_FALSE(Succeed(a, b));
  MakeResident(b);
  EXPECT_EQ(Copied(), 0);
  MarkReplaced(b);
  cache_->PurgeDeleted();
  other->weights.reset();
}

TEST_F(ContextCachePrefixTest, WithoutRoomForBothThePredecessorGivesWay) {
  const Context a = Make(6);
  MakeResident(a);
  const Context b = Append(a, 2);
  Succeed(a, b).Reset();
  Settle();
  EXPECT_TRUE(Resident(b));
  EXPECT_EQ(Copied(), 0);
  EXPECT_EQ(cache_->bytes_in_use(), 8 * 64);
}

TEST_F(ContextCachePrefixTest, OthersGiveWayBeforeThePredecessor) {
  const Context other = Make(5), a = Make(3);
  MakeResident(other);
  MakeResident(a);
  const Context b = Append(a, 2);
  Succeed(a, b).Reset();
  Settle();
  EXPECT_FALSE(Resident(other));
  EXPECT_EQ(Copied(), 3);
}

TEST_F(ContextCachePrefixTest, ItWaitsForCallsThatUseThePredecessor) {
  const Context a = Make(6);
  auto pin = Acquire(a);
  Settle();
  const Context b = Append(a, 2);
  EXPECT_FALSE(Succeed(a, b).keeps_prefix()) << "nothing else can make room";
  auto waiting = Acquire(b);
  Settle();
  EXPECT_TRUE(waiting.waits_for_room());
  pin.Reset();
  Settle();
  EXPECT_NE(waiting.resident(), nullptr);
  EXPECT_EQ(log_.encoded_rows, 6 + 8);
}

TEST_F(ContextCachePrefixTest, TwoSuccessorsDoNotWaitForEachOther) {
  const Context a = Make(5);
  MakeResident(a);
  const Context b = Append(a, 1), c = Append(b, 1);
  const Context fill = Make(5);
  auto fill_pin = Acquire(fill);
  Settle();
  auto pin_b = Acquire(b);
  auto pin_c = Acquire(c);
  MarkReplaced(a);
  cache_->PurgeDeleted();
  EXPECT_TRUE(pin_b.waits_for_room());
  EXPECT_TRUE(pin_c.waits_for_room());
  fill_pin.Reset();
  Settle();
  EXPECT_NE(pin_b.resident(), nullptr);
  pin_b.Reset();
  Settle();
  EXPECT_NE(pin_c.resident(), nullptr);
}

TEST_F(ContextCachePrefixTest, WithoutRoomOfTheTenantThePredecessorGivesWay) {
  const Context a = Make(3);
  a->data = std::make_unique<ContextData>(ZerosFor(*a));
  cache_->Acquire(a, now_, 5 * 64)->Reset();
  Settle();
  const Context b = Append(a, 1), c = Append(b, 2);
  Succeed(a, b).Reset();
  Settle();
  EXPECT_TRUE(Resident(b));
  EXPECT_EQ(Copied(), 0) << "the tenant may have five rows";
  EXPECT_FALSE(Succeed(b, c)) << "it alone exceeds the limit of the tenant";
  EXPECT_EQ(cache_->bytes_in_use(), 0);
}

TEST_F(ContextCachePrefixTest, ItWaitsWithItsPrefixWhileOthersAreSaved) {
  options_.host_context_pool_bytes = 640;
  MakeCache();
  const Context other = Make(5), a = Make(3);
  MakeResident(other);
  MakeResident(a);
  const Context b = Append(a, 1);
  auto pin = Succeed(a, b);
  EXPECT_TRUE(pin.keeps_prefix()) << "the other one is being saved";
  Settle();
  EXPECT_NE(pin.resident(), nullptr);
  EXPECT_EQ(Copied(), 3);
  EXPECT_EQ(log_.saves, 1) << "a predecessor that was replaced is not saved";
}

TEST_F(ContextCachePrefixTest, AnEvictedContextComesBackFromTheHost) {
  options_.host_context_pool_bytes = 640;
  MakeCache();
  const Context a = Make(3);
  MakeResident(a);
  const Context b = Append(a, 1);
  Succeed(a, b).Reset();
  Settle();
  MakeResident(Make(10));
  EXPECT_FALSE(Resident(b));
  const int64_t encodings = log_.encodings;
  const auto pin = Acquire(b);
  Settle();
  EXPECT_EQ(log_.encodings, encodings);
  backend_->NewRows(pin.resident(), FeatureMatrix{1, 1, {0}}, PoolRange());
}

TEST_F(ContextCachePrefixTest, WhatWasDroppedIsEncodedFromItsRows) {
  const Context a = Make(3);
  MakeResident(a);
  const Context b = Append(a, 1);
  Succeed(a, b).Reset();
  Settle();
  MakeResident(Make(10));
  const auto pin = Acquire(b);
  Settle();
  EXPECT_EQ(Copied(), 0);
  backend_->NewRows(pin.resident(), FeatureMatrix{1, 1, {0}}, PoolRange());
}

TEST_F(ContextCachePrefixTest, ASuccessorThatIsReplacedTakesItsPrefixAlong) {
  const Context a = Make(3);
  MakeResident(a);
  const Context b = Append(a, 1);
  Succeed(a, b).Reset();
  MarkReplaced(b);
  cache_->PurgeDeleted();
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  EXPECT_TRUE(cache_->jobs().empty());
}

TEST_F(ContextCachePrefixTest, AnErrorOfTheDataReleasesThePrefix) {
  const Context a = Make(3);
  MakeResident(a);
  const Context b = Append(a, 1);
  b->data.reset();
  MarkReplaced(a);
  auto pin = *cache_->Acquire(b, now_);
  cache_->PurgeDeleted();
  EXPECT_EQ(cache_->bytes_in_use(), (3 + 4) * 64);
  cache_->OnData(b, absl::DataLossError("broken"));
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  EXPECT_FALSE(pin.status().ok());
}

TEST_F(ContextCachePrefixTest, ASmallerPoolEndsTheEncodingAndThePrefix) {
  const Context a = Make(3);
  MakeResident(a);
  const Context b = Append(a, 1);
  auto pin = Succeed(a, b);
  cache_->LimitPool(5 * 64);
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  Settle();
  EXPECT_NE(pin.resident(), nullptr);
  EXPECT_EQ(Copied(), 0);
}

TEST_F(ContextCachePrefixTest, ClearEndsEncodingsWithPrefixes) {
  const Context a = Make(3), other = Make(1);
  MakeResident(a);
  const Context b = Append(a, 1);
  Succeed(a, b).Reset();
  Acquire(other).Reset();
  cache_->Clear();
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  EXPECT_EQ(log_.live_work, 0);
}

TEST_F(ContextCachePrefixTest, TheFlopsAreThoseOfTheNewRows) {
  const Context a = Make(4);
  MakeResident(a);
  const Context b = Append(a, 1);
  auto pin = Succeed(a, b);
  const ModelConfig& config = model_->info.config;
  EXPECT_EQ(cache_->EncodeFlopsLeft(), EncodeFlops(config, {.rows = 5}, {4}, 4));
  EXPECT_NE(cache_->EncodeFlopsLeft(), EncodeFlops(config, {.rows = 5}, {4}));
  Settle();
  EXPECT_EQ(cache_->EncodeFlopsLeft(), 0);
}

TEST_F(ContextCachePrefixTest, WhatIsEncodedAnewIsEvictedOnlyOnceItIsRegistered) {
  const Context anew = Make(6);
  anew->registered = false;
  {
    auto pin = Acquire(anew);
    Settle();
    pin.StayResident();
  }
  const auto waiting = Acquire(Make(10));
  Settle();
  EXPECT_TRUE(Resident(anew));
  cache_->OnRegistered(*anew, /*stays=*/true);
  Settle();
  EXPECT_TRUE(Resident(anew));
  EXPECT_TRUE(anew->pinned);
  cache_->OnRegistered(*anew, /*stays=*/false);
  Settle();
  EXPECT_FALSE(Resident(anew));
  EXPECT_FALSE(anew->pinned);
  EXPECT_NE(waiting.resident(), nullptr);
}

}  // namespace
}  // namespace chorale::testing
