#include "server/memory/own_memory_limit.h"

#include "gtest/gtest.h"

namespace chorale {
namespace {

constexpr int64_t kBeside = OwnMemoryLimit::kBeside;

TEST(OwnMemoryLimitTest, FollowsWhatTheWorkHasHeld) {
  OwnMemoryLimit limit(1000, {.pools = 400, .weights = 50});
  EXPECT_EQ(limit.Next({.pools = 400, .weights = 50}), 1000 + kBeside);
  EXPECT_EQ(limit.Next({.pools = 900, .passing = 30, .weights = 50}), 1530 + kBeside);
  EXPECT_EQ(limit.Next({.pools = 100, .weights = 50}), 1530 + kBeside) << "a pool keeps its memory";
  EXPECT_EQ(limit.Next({.pools = 900, .passing = 30, .weights = 60}), 1550 + kBeside);
}

TEST(OwnMemoryLimitTest, WhatCannotBeConnectionsIsTheProcesssOwn) {
  OwnMemoryLimit limit(1000, {.pools = 400});
  ASSERT_EQ(limit.Next({.pools = 600}), 1200 + kBeside);
  limit.Raise(1100);
  EXPECT_EQ(limit.Next({.pools = 600}), 1200 + kBeside);
  limit.Raise(5000);
  EXPECT_EQ(limit.Next({.pools = 600}), 5000 + kBeside);
}

}  // namespace
}  // namespace chorale
