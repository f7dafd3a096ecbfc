#include "engine/context/context_cache.h"

#include <random>
#include <set>
#include <vector>

#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/context/context_cache_fixture.h"
#include "tests/engine/small_model.h"
#include "tests/support/length.h"

namespace chorale {
namespace {

using testing::ZerosFor;

class ContextCacheTest : public testing::ContextCacheFixture {};

TEST_F(ContextCacheTest, EveryJobThatEndsIsNamedOnce) {
  const Context done = Make(2);
  const Context dropped = Make(2);
  { auto pin = Acquire(done); }
  const uint64_t done_id = cache_->jobs().at(0).id;
  { auto pin = Acquire(dropped); }
  const uint64_t dropped_id = cache_->jobs().at(1).id;
  EXPECT_TRUE(cache_->TakeEndedJobs().empty());
  dropped->deleted = true;
  cache_->PurgeDeleted();
  EXPECT_EQ(cache_->TakeEndedJobs(), std::vector<uint64_t>{dropped_id});
  Settle();
  EXPECT_EQ(cache_->TakeEndedJobs(), std::vector<uint64_t>{done_id});
  EXPECT_TRUE(cache_->TakeEndedJobs().empty());
}

TEST_F(ContextCacheTest, OneEntryForManyPins) {
  const Context context = Make(4);
  auto first = Acquire(context);
  auto second = Acquire(context);
  EXPECT_EQ(cache_->jobs().size(), 1u);
  EXPECT_EQ(first.resident(), nullptr);
  EXPECT_EQ(context->state, ContextState::kEncoding);
  Settle();
  EXPECT_NE(first.resident(), nullptr);
  EXPECT_EQ(first.resident(), second.resident());
  EXPECT_EQ(cache_->bytes_in_use(), 256);
  EXPECT_EQ(cache_->resident_contexts(), 1);
}

TEST_F(ContextCacheTest, EvictsTheLeastRecentlyUsed) {
  const Context a = Make(4), b = Make(4), c = Make(4);
  Acquire(a).Reset();
  Settle();
  Acquire(b).Reset();
  Settle();
  Acquire(a).Reset();  // used again
  Acquire(c).Reset();
  Settle();
  EXPECT_TRUE(Resident(a));
  EXPECT_FALSE(Resident(b));
  EXPECT_TRUE(Resident(c));
}

class TenantRoomTest : public ContextCacheTest {
 protected:
  static constexpr int64_t kFourRows = 256;

  Context MakeFor(const std::string& tenant, int64_t rows) const {
    Context context = Make(rows);
    context->record.tenant = tenant;
    return context;
  }
  // By a call of a tenant that may take four rows.
  ContextCache::Pin AcquireOfFour(const Context& context) {
    context->data = std::make_unique<ContextData>(ZerosFor(*context));
    auto pin = cache_->Acquire(context, now_, kFourRows);
    EXPECT_TRUE(pin.ok()) << pin.status();
    return *std::move(pin);
  }
};

TEST_F(TenantRoomTest, ContextsOfATenantMakeRoomForOneAnother) {
  const Context other = MakeFor("zeta", 2);
  MakeResident(other);  // the least recently used of all
  const Context a = MakeFor("acme", 2), b = MakeFor("acme", 2), c = MakeFor("acme", 2);
  for (const Context& context : {a, b, c}) {
    AcquireOfFour(context).Reset();
    Settle();
  }
  EXPECT_FALSE(Resident(a));
  EXPECT_TRUE(Resident(b));
  EXPECT_TRUE(Resident(c));
  EXPECT_TRUE(Resident(other)) << "the pool has room for it";
}

TEST_F(TenantRoomTest, NothingIsEvictedInVainAndTheLastPinLetsTheNextIn) {
  const Context a = MakeFor("acme", 2), b = MakeFor("acme", 2), large = MakeFor("acme", 4);
  AcquireOfFour(a).Reset();
  auto pin = AcquireOfFour(b);
  Settle();
  auto waiting = AcquireOfFour(large);
  Settle();
  EXPECT_TRUE(waiting.waits_for_room());
  EXPECT_TRUE(Resident(a)) << "evicted in vain";
  pin.Reset();
  Settle();
  EXPECT_TRUE(Resident(large));
  EXPECT_EQ(cache_->bytes_in_use(), kFourRows);
}

TEST_F(TenantRoomTest, OneThatIsSavedCountsUntilItIsGone) {
  options_.host_context_pool_bytes = 640;
  MakeCache();
  const Context a = MakeFor("acme", 4), b = MakeFor("acme", 4);
  AcquireOfFour(a).Reset();
  Settle();
  auto pin = AcquireOfFour(b);
  EXPECT_TRUE(pin.waits_for_room()) << "a is being copied";
  EXPECT_LE(cache_->bytes_in_use(), kFourRows);
  Settle();
  EXPECT_TRUE(Resident(b));
  EXPECT_EQ(cache_->bytes_in_use(), kFourRows);
}

TEST_F(TenantRoomTest, AContextThatIsLargerIsRefused) {
  const Context context = MakeFor("acme", 5);
  context->record.name = "large";
  const absl::Status refused = cache_->Acquire(context, now_, kFourRows).status();
  EXPECT_EQ(ExceededQuota(refused), "max_resident_mib");
  EXPECT_EQ(std::string(refused.message()),
            "context \"large\" needs 320 bytes in memory; the tenant's quota is 256");
  EXPECT_EQ(RetryDelay(refused), absl::ZeroDuration());
}

// The pool has ten rows: five are an equal part of two tenants, three of three.
TEST_F(TenantRoomTest, WhoHoldsMoreThanAnEqualPartMakesRoom) {
  const Context victim = MakeFor("victim", 3);
  MakeResident(victim);  // the least recently used of all
  std::vector<Context> greedy;
  for (int i = 0; i < 8; ++i) {
    greedy.push_back(MakeFor("greedy", 2));
    MakeResident(greedy.back());
    EXPECT_TRUE(Resident(victim)) << i;
  }
  EXPECT_TRUE(Resident(greedy[5]));
  // Who comes later gets its part from whoever has more.
  const Context third = MakeFor("third", 2);
  MakeResident(third);
  EXPECT_TRUE(Resident(victim));
  EXPECT_FALSE(Resident(greedy[5]));
  EXPECT_TRUE(Resident(greedy[7]));
}

TEST_F(TenantRoomTest, PinsTakeNoMoreThanAnEqualPartFromOthers) {
  const Context victim = MakeFor("victim", 4);
  MakeResident(victim);
  const Context a = MakeFor("greedy", 3), b = MakeFor("greedy", 3), c = MakeFor("greedy", 3);
  auto pin_a = Acquire(a);
  auto pin_b = Acquire(b);
  auto pin_c = Acquire(c);
  Settle();
  EXPECT_TRUE(pin_c.waits_for_room());
  EXPECT_TRUE(Resident(victim));
  pin_a.Reset();
  Settle();
  EXPECT_TRUE(Resident(c));
  EXPECT_FALSE(Resident(a));
  EXPECT_TRUE(Resident(victim));
}

TEST_F(TenantRoomTest, AContextLargerThanAnEqualPartComesIn) {
  const Context victim = MakeFor("victim", 4);
  MakeResident(victim);
  const Context small = MakeFor("greedy", 2), large = MakeFor("greedy", 8);
  auto pin = Acquire(small);
  Settle();
  auto waiting = Acquire(large);
  Settle();
  EXPECT_TRUE(waiting.waits_for_room()) << "for what its tenant uses itself";
  EXPECT_TRUE(Resident(victim));
  pin.Reset();
  Settle();
  EXPECT_TRUE(Resident(large));
  EXPECT_FALSE(Resident(victim));
}

TEST_F(ContextCacheTest, ASmallerPoolEvictsWhatNobodyUses) {
  const Context old = Make(2), pinned = Make(3), recent = Make(4);
  MakeResident(old);
  auto pin = Acquire(pinned);
  Settle();
  MakeResident(recent);
  cache_->LimitPool(4 * 64);
  EXPECT_FALSE(Resident(old));
  EXPECT_FALSE(Resident(recent));
  EXPECT_TRUE(Resident(pinned));
  EXPECT_EQ(cache_->Acquire(recent, now_).ok(), true);  // as large as the pool is now
  const auto refused = cache_->Acquire(Make(5), now_);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  // It waits for the one that is pinned.
  auto waiting = Acquire(recent);
  Settle();
  EXPECT_TRUE(waiting.waits_for_room());
  pin.Reset();
  Settle();
  EXPECT_TRUE(Resident(recent));
  EXPECT_FALSE(Resident(pinned));
  waiting.Reset();
  // One that is above the limit goes with its last pin.
  auto last = Acquire(recent);
  cache_->LimitPool(64);
  EXPECT_TRUE(Resident(recent));
  last.Reset();
  EXPECT_FALSE(Resident(recent));
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  cache_->LimitPool(10'000);
  MakeResident(Make(10));
}

TEST_F(ContextCacheTest, ASmallerPoolRefusesWhatWaitsAndNoLongerFits) {
  const Context pinned = Make(8), large = Make(6), small = Make(3);
  auto pin = Acquire(pinned);
  Settle();
  auto waits = Acquire(large);
  auto also_waits = Acquire(small);
  cache_->LimitPool(4 * 64);
  EXPECT_EQ(waits.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(waits.status().message()),
              ::testing::HasSubstr("leaves 256 bytes for contexts at the moment"));
  EXPECT_TRUE(also_waits.status().ok());
  pin.Reset();
  Settle();
  EXPECT_TRUE(Resident(small));
  waits.Reset();
  cache_->LimitPool(10 * 64);
  also_waits.Reset();
  MakeResident(large);
}

TEST_F(ContextCacheTest, ASmallerPoolEndsTheLatestEncodings) {
  const Context first = Make(3), second = Make(3), nobodys = Make(2), reading = Make(1);
  auto pin_first = Acquire(first);
  auto pin_second = Acquire(second);
  Acquire(nobodys).Reset();
  auto pin_reading = *cache_->Acquire(reading, now_);  // its data is still to be read
  ASSERT_EQ(cache_->jobs().size(), 3u);
  ASSERT_EQ(cache_->TakeReads().size(), 1u);
  cache_->LimitPool(4 * 64);
  EXPECT_EQ(cache_->bytes_in_use(), 3 * 64);
  EXPECT_EQ(cache_->TakeEndedJobs().size(), 2u);
  EXPECT_FALSE(pin_first.waits_for_room());
  EXPECT_TRUE(pin_second.waits_for_room());
  EXPECT_TRUE(pin_reading.waits_for_room());
  EXPECT_EQ(nobodys->state, ContextState::kNotResident);
  cache_->OnData(reading, ZerosFor(*reading));  // comes too late: it is read again
  EXPECT_TRUE(pin_reading.waits_for_room());
  Settle();
  EXPECT_TRUE(Resident(first));
  EXPECT_TRUE(Resident(reading));
  EXPECT_TRUE(pin_second.waits_for_room());
  pin_first.Reset();
  Settle();
  EXPECT_TRUE(Resident(second));
  EXPECT_EQ(cache_->bytes_in_use(), 4 * 64);
}

TEST_F(ContextCacheTest, ASmallerPoolRefusesAnEncodingThatNoLongerFits) {
  const Context large = Make(6);
  auto pin = Acquire(large);
  ASSERT_EQ(cache_->jobs().size(), 1u);
  cache_->LimitPool(4 * 64);
  EXPECT_EQ(pin.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(cache_->jobs().empty());
  EXPECT_EQ(cache_->bytes_in_use(), 0);
}

TEST_F(ContextCacheTest, EvictsUntilARangeFitsNotOnlyUntilTheBytesDo) {
  // Four of two rows, and two rows free at the end; the second and third are pinned in turn.
  const std::vector<Context> small = {Make(2), Make(2), Make(2), Make(2)};
  std::vector<ContextCache::Pin> pins;
  for (const Context& context : small) pins.push_back(Acquire(context));
  Settle();
  pins[0].Reset();
  pins[2].Reset();
  // 2 rows at 0, 2 rows at 4 and 2 rows at 8 could be had, but no four in a row: all stay.
  const Context large = Make(4);
  auto pin = Acquire(large);
  Settle();
  EXPECT_TRUE(pin.waits_for_room());
  EXPECT_TRUE(Resident(small[0])) << "evicted in vain";
  EXPECT_TRUE(Resident(small[2])) << "evicted in vain";
  // With the last one unpinned, rows 4 to 9 can be had.
  pins[3].Reset();
  Settle();
  EXPECT_NE(pin.resident(), nullptr);
  EXPECT_TRUE(Resident(small[1]));
}

TEST_F(ContextCacheTest, ASmallerOneMayPassOneThatWaitsForRoom) {
  const Context a = Make(6), large = Make(8), small = Make(3);
  auto pin_a = Acquire(a);
  Settle();
  auto pin_large = Acquire(large);
  auto pin_small = Acquire(small);
  Settle();
  EXPECT_TRUE(pin_large.waits_for_room());
  EXPECT_TRUE(Resident(small));
  pin_a.Reset();
  pin_small.Reset();
  Settle();
  EXPECT_TRUE(Resident(large));
}

TEST_F(ContextCacheTest, ReleasingTheLastPinEndsTheWait) {
  const Context a = Make(10), b = Make(10);
  auto pin_a = Acquire(a);
  Settle();
  Acquire(b).Reset();  // waits for room, and goes
  pin_a.Reset();
  Settle();
  EXPECT_TRUE(Resident(a));
  EXPECT_FALSE(Resident(b));
  EXPECT_EQ(log_.encodings, 1);
}

TEST_F(ContextCacheTest, DeletedWhilePinnedLivesUntilTheLastPinGoes) {
  const Context context = Make(4);
  auto first = Acquire(context);
  auto second = Acquire(context);
  Settle();
  context->deleted = true;
  cache_->PurgeDeleted();
  EXPECT_FALSE(cache_->Acquire(context, now_).ok());
  EXPECT_NE(first.resident(), nullptr);
  first.Reset();
  EXPECT_EQ(cache_->bytes_in_use(), 256);
  second.Reset();
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  EXPECT_EQ(log_.released_context_bytes, 256);
}

TEST_F(ContextCacheTest, DeletedUnpinnedOrWhileEncodingGoesAtOnce) {
  const Context resident = Make(4), encoding = Make(4);
  Acquire(resident).Reset();
  Settle();
  Acquire(encoding).Reset();
  resident->deleted = true;
  encoding->deleted = true;
  cache_->PurgeDeleted();
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  EXPECT_TRUE(cache_->jobs().empty());
  EXPECT_EQ(log_.live_work, 0);
}

TEST_F(ContextCacheTest, TwoRegistrationsWithEqualContentAreTwoEntries) {
  const Context old = Make(4);
  auto pin = Acquire(old);
  Settle();
  old->deleted = true;
  cache_->PurgeDeleted();
  const Context fresh = Make(4);
  auto fresh_pin = Acquire(fresh);
  Settle();
  EXPECT_NE(pin.resident()->kv.offset, fresh_pin.resident()->kv.offset);
  EXPECT_EQ(cache_->bytes_in_use(), 512);
}

TEST_F(ContextCacheTest, EncodingsTakeTurnsWhereTheirWorkspaceIsSmall) {
  options_.encode_pool_bytes = 4 * 64;
  options_.encode_bytes_per_row = 64;
  MakeCache();
  const Context resident = Make(4), first = Make(4), second = Make(3);
  Acquire(resident).Reset();
  Settle();
  auto first_pin = Acquire(first);
  auto second_pin = Acquire(second);
  EXPECT_FALSE(first_pin.waits_for_room());
  EXPECT_TRUE(second_pin.waits_for_room());
  EXPECT_TRUE(Resident(resident)) << "evicted in vain";
  Settle();
  EXPECT_NE(first_pin.resident(), nullptr);
  EXPECT_NE(second_pin.resident(), nullptr);
  EXPECT_EQ(log_.released_encode_bytes, (2 * 4 + 3) * 64);
}

TEST_F(ContextCacheTest, WhatIsDroppedWhileItIsReadGivesItsWorkspaceBack) {
  options_.encode_pool_bytes = 4 * 64;
  options_.encode_bytes_per_row = 64;
  MakeCache();
  const Context failed = Make(4), deleted = Make(4), context = Make(4);
  auto failed_pin = *cache_->Acquire(failed, now_);
  cache_->OnData(failed, absl::DataLossError("broken"));
  EXPECT_EQ(log_.released_encode_bytes, 4 * 64);
  cache_->Acquire(deleted, now_)->Reset();
  deleted->deleted = true;
  cache_->PurgeDeleted();
  EXPECT_EQ(log_.released_encode_bytes, 2 * 4 * 64);
  auto pin = Acquire(context);
  Settle();
  EXPECT_NE(pin.resident(), nullptr);
}

TEST_F(ContextCacheTest, AFailedReadIsReportedAndTriedAgain) {
  const Context context = Make(4);
  auto pin = cache_->Acquire(context, now_);
  ASSERT_TRUE(pin.ok());
  ASSERT_EQ(cache_->TakeReads().size(), 1u);
  EXPECT_TRUE(cache_->TakeReads().empty()) << "asked twice";
  cache_->OnData(context, absl::DataLossError("broken"));
  EXPECT_EQ(pin->status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  auto next = Acquire(context);
  Settle();
  EXPECT_NE(next.resident(), nullptr);
  pin->Reset();
  EXPECT_TRUE(Resident(context));
}

// Evicted contexts are copied to the host and restored from there.
class HostTierTest : public ContextCacheTest {
 protected:
  HostTierTest() {
    options_.host_context_pool_bytes = 8 * 64;  // eight rows
    MakeCache();
  }
  // One turn: what waits is placed, and jobs take one step.
  void Turn() {
    cache_->PlaceWaiting(now_);
    std::vector<Slice> slices;
    for (const ContextCache::Job& job : cache_->jobs()) slices.push_back({job.work, 1});
    if (!slices.empty()) {
      ASSERT_TRUE(backend_->Advance(slices).ok());
    }
    cache_->CollectJobs(now_);
  }
  // Checks that the resident range holds this context.
  void ExpectItsBytes(const ContextCache::Pin& pin) {
    ASSERT_NE(pin.resident(), nullptr);
    backend_->NewRows(pin.resident(), FeatureMatrix{1, 1, {0}}, PoolRange());
  }
};

TEST_F(HostTierTest, WhatWasEvictedComesBackByACopy) {
  const Context a = Make(6), b = Make(7);
  MakeResident(a);
  auto pin_b = Acquire(b);
  EXPECT_TRUE(pin_b.waits_for_room());
  Settle();
  EXPECT_NE(pin_b.resident(), nullptr);
  EXPECT_FALSE(Resident(a));
  EXPECT_EQ(log_.saves, 1);
  pin_b.Reset();
  auto pin_a = Acquire(a);  // b is dropped for it: the host has no room beside a's copy
  Settle();
  ExpectItsBytes(pin_a);
  EXPECT_TRUE(Resident(a));
  EXPECT_EQ(log_.encodings, 2);
  EXPECT_EQ(log_.restores, 1);
  EXPECT_TRUE(cache_->TakeReads().empty());
}

TEST_F(HostTierTest, OneThatIsWantedWhileItIsSavedGivesWayAndComesBack) {
  const Context a = Make(6), b = Make(7);
  MakeResident(a);
  auto pin_b = Acquire(b);
  Turn();
  EXPECT_EQ(log_.saves, 1);
  EXPECT_FALSE(Resident(a));
  auto pin_a = Acquire(a);
  EXPECT_TRUE(pin_a.waits_for_room());
  Settle();
  EXPECT_NE(pin_b.resident(), nullptr) << "an earlier request waits for a later one";
  EXPECT_TRUE(pin_a.waits_for_room());
  pin_b.Reset();
  Settle();
  ExpectItsBytes(pin_a);
  EXPECT_EQ(log_.encodings, 2);
  EXPECT_EQ(log_.restores, 1);
}

TEST_F(HostTierTest, ANewcomerDoesNotTakeTheRoomThatOthersWaitFor) {
  const Context a = Make(7), b = Make(7), c = Make(7);
  MakeResident(a);
  auto pin_b = Acquire(b);
  Turn();
  while (!cache_->jobs().empty()) Turn();  // until a's copy is there, and its room is free
  auto pin_c = Acquire(c);
  EXPECT_FALSE(pin_b.waits_for_room());
  EXPECT_TRUE(pin_c.waits_for_room());
}

// What stays there leaves no room for it: nothing is dropped for nothing.
TEST_F(HostTierTest, TheHostDropsNothingInVain) {
  const Context a = Make(3), b = Make(5), c = Make(10), d = Make(6);
  MakeResident(a);
  MakeResident(b);
  MakeResident(c);  // a and b are saved, and fill the host
  auto pin_c = Acquire(c);
  auto pin_a = Acquire(a);  // waits, and keeps its place on the host
  pin_c.Reset();
  Turn();  // c, too large for the host, makes room for a
  EXPECT_EQ(log_.saves, 2);
  Settle();
  ExpectItsBytes(pin_a);
  MakeResident(d);
  MakeResident(b);
  EXPECT_GE(log_.restores, 2) << "b was dropped from the host for nothing";
}

TEST_F(HostTierTest, TheHostDropsWhatWasUsedLeastRecently) {
  const Context a = Make(4), b = Make(4), c = Make(4), large = Make(10);
  MakeResident(a);
  MakeResident(b);
  MakeResident(large);  // a and b are saved, and fill the host
  EXPECT_EQ(log_.saves, 2);
  Acquire(a).Reset();  // used again
  MakeResident(c);     // the large one does not fit the host, and displaces nothing there
  EXPECT_EQ(log_.saves, 2);
  MakeResident(large);  // c takes b's place on the host
  EXPECT_EQ(log_.saves, 3);
  EXPECT_EQ(log_.encodings, 5);
  MakeResident(a);
  EXPECT_EQ(log_.restores, 1);
  MakeResident(b);
  EXPECT_EQ(log_.restores, 1);
  EXPECT_EQ(log_.encodings, 6);
}

TEST_F(HostTierTest, ReleasingTheLastPinEndsTheWaitForACopy) {
  const Context a = Make(6), b = Make(7);
  MakeResident(a);
  auto pin_b = Acquire(b);
  Settle();
  Acquire(a).Reset();  // waits for room, gives up, and keeps its copy
  Settle();
  pin_b.Reset();
  auto pin_a = Acquire(a);
  Settle();
  ExpectItsBytes(pin_a);
  EXPECT_EQ(log_.encodings, 2);
}

TEST_F(HostTierTest, DeletedAndEvictedOnesLeaveTheHost) {
  const Context a = Make(6), b = Make(7), c = Make(6);
  MakeResident(a);
  {
    const auto pin_b = Acquire(b);
    Turn();
    a->deleted = true;  // while it is saved
    cache_->PurgeDeleted();
    Settle();
    EXPECT_NE(pin_b.resident(), nullptr);
  }
  MakeResident(c);
  EXPECT_EQ(log_.saves, 2);
  b->deleted = true;  // where it is saved
  cache_->PurgeDeleted();
  MakeResident(Make(7));  // c is saved
  EXPECT_EQ(log_.saves, 3) << "the host has no room, although nothing is there";
  EXPECT_EQ(log_.restores, 0);
}

// Random pins, releases, deletions and evictions; after each step the accounts must be exact.
class RandomCacheTest : public ContextCacheTest, public ::testing::WithParamInterface<int64_t> {};

INSTANTIATE_TEST_SUITE_P(HostRows, RandomCacheTest, ::testing::Values(0, 4, 12));

TEST_P(RandomCacheTest, InvariantsHold) {
  options_.host_context_pool_bytes = GetParam() * 64;
  MakeCache();
  std::mt19937 random(5);
  struct Held {
    Context context;
    ContextCache::Pin pin;
  };
  std::vector<Context> contexts;
  for (int i = 0; i < 6; ++i) contexts.push_back(Make(1 + static_cast<int64_t>(random() % 5)));
  std::vector<Held> held;
  const int steps = FullLength() ? 5000 : 1000;
  for (int i = 0; i < steps; ++i) {
    const size_t which = random() % contexts.size();
    switch (random() % 6) {
      case 0:
      case 1:
        held.push_back({contexts[which], Acquire(contexts[which])});
        break;
      case 2:
      case 3:
        if (!held.empty()) held.erase(held.begin() + static_cast<int64_t>(random() % held.size()));
        break;
      case 4:
        contexts[which]->deleted = true;
        cache_->PurgeDeleted();
        contexts[which] = Make(1 + static_cast<int64_t>(random() % 5));
        break;
      default: {  // evicts what it can
        const Context large = Make(10);
        { const ContextCache::Pin pin = Acquire(large); }
        large->deleted = true;
        cache_->PurgeDeleted();
      }
    }
    Settle();
    std::set<const RegisteredContext*> alive;
    int64_t pinned_bytes = 0;
    for (const Held& one : held) {
      if (one.pin.resident() == nullptr) {
        ASSERT_TRUE(one.pin.waits_for_room());
        continue;
      }
      if (alive.insert(one.context.get()).second) pinned_bytes += one.context->resident_bytes;
    }
    int64_t unpinned_bytes = 0;
    for (const Context& context : contexts) {
      if (Resident(context) && !alive.contains(context.get())) {
        unpinned_bytes += context->resident_bytes;
      }
    }
    ASSERT_EQ(cache_->bytes_in_use(), pinned_bytes + unpinned_bytes) << "after step " << i;
    ASSERT_LE(cache_->bytes_in_use(), 640);
  }
  held.clear();
  for (const Context& context : contexts) context->deleted = true;
  cache_->PurgeDeleted();
  EXPECT_EQ(cache_->bytes_in_use(), 0);
  EXPECT_EQ(cache_->resident_contexts(), 0);
}

}  // namespace
}  // namespace chorale
