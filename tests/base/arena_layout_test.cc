#include "base/arena_layout.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace chorale {
namespace {

TEST(ArenaLayoutTest, ArraysLieBehindEachOtherAligned) {
  ArenaLayout arena(64);
  const ArenaArray<char> a = arena.Take<char>(1);
  const ArenaArray<double> b = arena.Take<double>(9);
  const ArenaArray<float> c = arena.Take<float>(16);
  EXPECT_EQ(a.offset, 0);
  EXPECT_EQ(b.offset, 64);
  EXPECT_EQ(c.offset, 192);
  EXPECT_EQ(arena.bytes(), 256);
}

TEST(ArenaLayoutTest, AnEmptyArrayTakesNothing) {
  SmemArenaLayout arena(16);
  const SmemArray<int> none = arena.Take<int>(0);
  const SmemArray<int> some = arena.Take<int>(1);
  EXPECT_EQ(none.offset, some.offset);
  EXPECT_EQ(arena.bytes(), 16);
}

TEST(ArenaLayoutTest, AnArrayIsFoundInMemory) {
  ArenaLayout arena(8);
  arena.Take<char>(3);
  const ArenaArray<int32_t> numbers = arena.Take<int32_t>(2);
  std::vector<double> memory(arena.bytes() / sizeof(double));
  char* block = reinterpret_cast<char*>(memory.data());
  numbers.At(block)[1] = 7;
  EXPECT_EQ(numbers.At(static_cast<const char*>(block))[1], 7);
  EXPECT_EQ(reinterpret_cast<char*>(numbers.At(block)) - block, 8);
}

TEST(ArenaLayoutTest, SizesBeyond32BitsAreExact) {
  ArenaLayout arena(256);
  arena.Take<double>(int64_t{1} << 32);
  EXPECT_EQ(arena.Take<char>(1).offset, int64_t{1} << 35);
}

}  // namespace
}  // namespace chorale
