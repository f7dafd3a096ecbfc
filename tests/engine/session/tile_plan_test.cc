#include "engine/session/tile_plan.h"

#include "gtest/gtest.h"
#include "tests/engine/fake_backend.h"

namespace chorale {
namespace {

using testing::FakeBackendLog;
using testing::FakeBackendOptions;
using testing::NewFakeBackend;

TilePlan Plan(int64_t paths, int64_t query_rows, int64_t max_slots, int64_t pool = 1 << 20,
              WorkKind work = WorkKind::kDecode) {
  FakeBackendLog log;
  // Tiles of 4 paths; 64 bytes for each path and query row, or in a density for each query row.
  FakeBackendOptions options;
  options.buffer_pool_bytes = pool;
  return PlanTiles(*NewFakeBackend(options, &log), ModelConfig(),
                   {query_rows, {{query_rows, paths}}, work}, max_slots);
}

TEST(TilePlanTest, TilesCoverEveryPathOnce) {
  for (int64_t paths = 1; paths < 40; ++paths) {
    const TilePlan plan = Plan(paths, 3, 4);
    int64_t covered = 0;
    for (int64_t tile = 0; tile < plan.tiles; ++tile) {
      const PlannedTile planned = plan.tile(tile);
      ASSERT_EQ(planned.first_path, covered);
      ASSERT_GE(planned.paths, 1);
      ASSERT_LE(planned.paths, plan.MostTilePaths());
      ASSERT_EQ(planned.positions, 3);
      covered += planned.paths;
    }
    ASSERT_EQ(covered, paths);
    ASSERT_LE(plan.slots, plan.tiles);
  }
}

TEST(TilePlanTest, SlotsAreBoundedByTheTickAndHalfThePool) {
  EXPECT_EQ(Plan(100, 4, 6).slots, 6);
  EXPECT_EQ(Plan(8, 4, 6).slots, 2);
  EXPECT_EQ(Plan(100, 4, 6).slot_bytes, 4 * 4 * 64);
  EXPECT_EQ(Plan(100, 4, 6, 4096).slots, 2);  // half of four
  EXPECT_EQ(Plan(100, 4, 6, 1024).slots, 1);  // one is always allowed
  EXPECT_EQ(Plan(100, 4, 6, 1023).slots, 0);
  EXPECT_EQ(Plan(3, 4, 6, 1023).slots, 1);  // fewer paths than a tile
}

TEST(TilePlanTest, DensitiesHaveSlotsOfTheirOwnSize) {
  EXPECT_EQ(Plan(100, 4, 6, 4096, WorkKind::kDensity).slot_bytes, 4 * 64);
  EXPECT_EQ(Plan(100, 4, 6, 4096, WorkKind::kDensity).slots, 6);
  EXPECT_EQ(Plan(100, 4, 6, 1024, WorkKind::kDensity).slots, 2);
  EXPECT_EQ(Plan(100, 4, 6, 255, WorkKind::kDensity).slots, 0);
}

TEST(TilePlanTest, PathsMayHaveFewerPositionsThanThereAreQueryRows) {
  FakeBackendLog log;
  FakeBackendOptions options;
  options.rows_bytes_per_row = 16;
  const TilePlan plan = PlanTiles(*NewFakeBackend(options, &log), ModelConfig(),
                                  {100, {{3, 8}}, WorkKind::kDecode}, 6);
  EXPECT_EQ(plan.ranges(), (std::vector<int64_t>{4 * 3 * 64, 4 * 3 * 64, 100 * 16}));
}

// A tile has paths of one length. A slot has the bytes of the largest tile.
TEST(TilePlanTest, TilesHavePathsOfEqualLength) {
  FakeBackendLog log;
  const TilePlan plan = PlanTiles(*NewFakeBackend({}, &log), ModelConfig(),
                                  {20, {{3, 6}, {5, 2}, {1, 9}}, WorkKind::kDecode}, 6);
  std::vector<std::vector<int64_t>> tiles;
  for (int64_t tile = 0; tile < plan.tiles; ++tile) {
    const PlannedTile planned = plan.tile(tile);
    tiles.push_back({planned.first_path, planned.paths, planned.positions});
  }
  EXPECT_EQ(tiles, (std::vector<std::vector<int64_t>>{
                       {0, 4, 3}, {4, 2, 3}, {6, 2, 5}, {8, 4, 1}, {12, 4, 1}, {16, 1, 1}}));
  EXPECT_EQ(plan.slots, 6);
  EXPECT_EQ(plan.slot_bytes, 4 * 3 * 64);
  EXPECT_EQ(plan.TilesOf(0), 0);
  EXPECT_EQ(plan.TilesOf(2), 3);
  EXPECT_EQ(plan.TilesOf(3), plan.tiles);
}

TEST(TilePlanTest, ADensityHasAsManyTilesAsThereIsRoomFor) {
  FakeBackendLog log;
  FakeBackendOptions options;
  options.density_tiles = 5;
  const auto plan = [&](int64_t pool, int64_t paths) {
    options.buffer_pool_bytes = pool;
    return PlanTiles(*NewFakeBackend(options, &log), ModelConfig(),
                     {4, {{4, paths}}, WorkKind::kDensity}, 6);
  };
  EXPECT_EQ(plan(1 << 20, 100).MostTilePaths(), 20);
  EXPECT_EQ(plan(1 << 20, 100).slots, 5);
  EXPECT_EQ(plan(1 << 20, 100).slot_bytes, 5 * 4 * 64);
  EXPECT_EQ(plan(1 << 20, 7).MostTilePaths(), 7);
  EXPECT_EQ(plan(6 * 4 * 64, 100).MostTilePaths(), 12);  // no more than half of the pool
  EXPECT_EQ(plan(6 * 4 * 64, 100).slots, 1);
  EXPECT_EQ(plan(6 * 4 * 64, 18).MostTilePaths(), 12);  // whole tiles
  EXPECT_EQ(plan(4 * 64, 100).MostTilePaths(), 4);      // but one is always allowed
  EXPECT_EQ(plan(4 * 64, 100).slots, 1);
  EXPECT_EQ(plan(4 * 64 - 1, 100).slots, 0);
}

TEST(TilePlanTest, EncodedRowsTakeTheirShareBesideTheSlots) {
  FakeBackendLog log;
  FakeBackendOptions options;
  options.rows_bytes_per_row = 128;
  const auto slots = [&](int64_t pool) {
    options.buffer_pool_bytes = pool;
    return PlanTiles(*NewFakeBackend(options, &log), ModelConfig(),
                     {4, {{4, 100}}, WorkKind::kDecode}, 6)
        .slots;
  };
  EXPECT_EQ(slots(1024 + 511), 0);  // a slot, but no room for the rows
  EXPECT_EQ(slots(1024 + 512), 1);
  EXPECT_EQ(slots(4096), 2);  // as without them: half of the pool has room for two
  options.buffer_pool_bytes = 4096;
  const TilePlan plan =
      PlanTiles(*NewFakeBackend(options, &log), ModelConfig(), {4, {{4, 8}}, WorkKind::kDecode}, 6);
  EXPECT_EQ(plan.ranges(), (std::vector<int64_t>{1024, 1024, 512}));
}

TEST(TilePlanTest, PredictionsArePlannedByTheirRows) {
  EXPECT_EQ(Plan(300, 300, 6, 1 << 20, WorkKind::kPredict).ranges(), std::vector<int64_t>());
  EXPECT_EQ(Plan(300, 300, 6, 1 << 20, WorkKind::kPredict).slots, 3);
  FakeBackendLog log;
  FakeBackendOptions options;
  options.predict_bytes_per_row = 8;
  options.buffer_pool_bytes = 4 * 128 * 8;
  const TilePlan plan = PlanTiles(*NewFakeBackend(options, &log), ModelConfig(),
                                  {300, {{1, 300}}, WorkKind::kPredict}, 6);
  EXPECT_EQ(plan.ranges(), (std::vector<int64_t>{1024, 1024}));
  EXPECT_EQ(plan.tile(2).paths, 300 - 2 * 128);
}

}  // namespace
}  // namespace chorale
