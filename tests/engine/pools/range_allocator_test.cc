#include "engine/pools/range_allocator.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(RangeAllocatorTest, RoundsUpAndCounts) {
  RangeAllocator allocator(1000, 64);
  EXPECT_EQ(allocator.capacity(), 960);
  const auto range = allocator.Allocate(65);
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->offset, 0);
  EXPECT_EQ(range->bytes, 128);
  EXPECT_EQ(allocator.in_use(), 128);
  allocator.Free(*range);
  EXPECT_EQ(allocator.in_use(), 0);
}

TEST(RangeAllocatorTest, RefusesWhatDoesNotFit) {
  RangeAllocator allocator(256);
  EXPECT_FALSE(allocator.Allocate(257).has_value());
  EXPECT_FALSE(allocator.Allocate(INT64_MAX).has_value());
  EXPECT_TRUE(allocator.Allocate(256).has_value());
  EXPECT_FALSE(allocator.Allocate(1).has_value());
  EXPECT_FALSE(RangeAllocator(63).Allocate(1).has_value());
}

TEST(RangeAllocatorTest, KeepsBelowItsLimit) {
  RangeAllocator allocator(640);
  EXPECT_EQ(allocator.limit(), 640);
  const auto a = *allocator.Allocate(320);
  allocator.SetLimit(384);
  EXPECT_FALSE(allocator.Allocate(128).has_value());
  const auto b = *allocator.Allocate(64);
  allocator.SetLimit(64);  // what is there stays
  EXPECT_EQ(allocator.in_use(), 384);
  allocator.Free(a);
  EXPECT_FALSE(allocator.Allocate(1).has_value());
  allocator.Free(b);
  EXPECT_TRUE(allocator.Allocate(64).has_value());
  allocator.SetLimit(10'000);
  EXPECT_EQ(allocator.limit(), 640);
  EXPECT_TRUE(allocator.Allocate(576).has_value());
}

TEST(RangeAllocatorTest, TakesTheSmallestGapThatFits) {
  RangeAllocator allocator(64 * 10);
  const auto a = *allocator.Allocate(64 * 3);
  const auto b = *allocator.Allocate(64);
  const auto c = *allocator.Allocate(64 * 2);
  const auto d = *allocator.Allocate(64);
  allocator.Free(a);  // a gap of 3 at 0, of 2 at 4, and of 3 at the end
  allocator.Free(c);
  EXPECT_EQ(allocator.Allocate(64 * 2)->offset, c.offset);
  EXPECT_EQ(allocator.Allocate(64 * 3)->offset, a.offset);
  (void)b;
  (void)d;
}

TEST(RangeAllocatorTest, MergesWithBothNeighbours) {
  RangeAllocator allocator(64 * 3);
  const auto a = *allocator.Allocate(64);
  const auto b = *allocator.Allocate(64);
  const auto c = *allocator.Allocate(64);
  allocator.Free(a);
  allocator.Free(c);
  EXPECT_FALSE(allocator.Allocate(128).has_value());
  allocator.Free(b);
  EXPECT_TRUE(allocator.Allocate(192).has_value());
}

// The same pool as one flag per unit of alignment.
class NaivePool {
 public:
  explicit NaivePool(int64_t units) : used_(units, false) {}
  // Offset of the best fit, or -1.
  int64_t BestFit(int64_t units) const {
    int64_t best = -1;
    int64_t best_size = 0;
    for (int64_t i = 0; i < size();) {
      if (used_[i]) {
        ++i;
        continue;
      }
      int64_t end = i;
      while (end < size() && !used_[end]) ++end;
      if (end - i >= units && (best < 0 || end - i < best_size)) {
        best = i;
        best_size = end - i;
      }
      i = end;
    }
    return best;
  }
  int64_t Used() const { return std::count(used_.begin(), used_.end(), true); }
  void Set(int64_t first, int64_t units, bool used) {
    for (int64_t i = first; i < first + units; ++i) {
      ASSERT_NE(used_[i], used);
      used_[i] = used;
    }
  }
  int64_t size() const { return static_cast<int64_t>(used_.size()); }

 private:
  std::vector<bool> used_;
};

TEST(RangeAllocatorTest, AgreesWithANaiveModelOnRandomSequences) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const int64_t units = 50 + static_cast<int64_t>(random() % 100);
    RangeAllocator allocator(units * 128, 128);
    NaivePool naive(units);
    std::vector<PoolRange> live;
    for (int i = 0; i < 2000; ++i) {
      if (random() % 2 == 0 || live.empty()) {
        const int64_t bytes = 1 + static_cast<int64_t>(random() % (12 * 128));
        const int64_t expected = naive.BestFit((bytes + 127) / 128);
        const auto range = allocator.Allocate(bytes);
        ASSERT_EQ(range.has_value(), expected >= 0);
        if (!range.has_value()) continue;
        ASSERT_EQ(range->offset, expected * 128);
        ASSERT_EQ(range->bytes, (bytes + 127) / 128 * 128);
        naive.Set(expected, range->bytes / 128, true);
        live.push_back(*range);
      } else {
        const size_t victim = random() % live.size();
        allocator.Free(live[victim]);
        naive.Set(live[victim].offset / 128, live[victim].bytes / 128, false);
        live.erase(live.begin() + static_cast<int64_t>(victim));
      }
      ASSERT_EQ(allocator.in_use(), naive.Used() * 128);
    }
    for (const PoolRange& range : live) allocator.Free(range);
    EXPECT_EQ(allocator.in_use(), 0);
    EXPECT_TRUE(allocator.Allocate(units * 128).has_value());  // one gap again
  }
}

TEST(RangeAllocatorDeathTest, FreeingWhatWasNotAllocatedIsABug) {
  RangeAllocator allocator(1024);
  const PoolRange range = *allocator.Allocate(128);
  EXPECT_DEATH(allocator.Free({range.offset, 64}), "was allocated");
  EXPECT_DEATH(allocator.Free({64, 64}), "was allocated");
}

}  // namespace
}  // namespace chorale
