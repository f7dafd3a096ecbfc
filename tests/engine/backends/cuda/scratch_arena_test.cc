#include "engine/backends/cuda/scratch_arena.h"

#include <optional>
#include <utility>

#include "gtest/gtest.h"

namespace chorale {
namespace {

using kernels::cuda::Memory;
using kernels::cuda::MemoryKind;

class ScratchArenaTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (kernels::cuda::CountDevices(&devices) != 0 || devices == 0) {
      GTEST_SKIP() << "there is no GPU";
    }
    absl::StatusOr<Memory> memory = Memory::Allocate(MemoryKind::kDevice, 1024, "a test");
    ASSERT_TRUE(memory.ok());
    arena_.emplace(*std::move(memory));
  }

  Scratch Take(int64_t bytes) {
    absl::StatusOr<Scratch> scratch = arena_->Take(bytes);
    EXPECT_TRUE(scratch.ok());
    return *std::move(scratch);
  }

  std::optional<ScratchArena> arena_;
};

TEST_F(ScratchArenaTest, PiecesComeTogetherAgainInAnyOrder) {
  for (int order = 0; order < 6; ++order) {
    Scratch pieces[3] = {Take(1), Take(256), Take(300)};
    EXPECT_EQ(arena_->free_bytes(), 0);
    EXPECT_EQ(pieces[1].At<char>() - pieces[0].At<char>(), 256);
    const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int i : orders[order]) pieces[i] = Scratch();
    EXPECT_EQ(arena_->free_bytes(), 1024);
    const Scratch all = Take(1024);
    EXPECT_EQ(arena_->free_bytes(), 0);
  }
}

TEST_F(ScratchArenaTest, WhatHasNoRoomGetsMemoryOfItsOwn) {
  Scratch large = Take(5000);
  EXPECT_EQ(arena_->free_bytes(), 1024);
  EXPECT_GE(large.bytes(), 5000);
  large = Scratch();
  EXPECT_EQ(arena_->free_bytes(), 1024);
}

}  // namespace
}  // namespace chorale
