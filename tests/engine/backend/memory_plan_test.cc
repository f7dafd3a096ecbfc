#include "engine/backend/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "engine/backend/encode_blocks.h"
#include "engine/backend/flop_model.h"
#include "gtest/gtest.h"
#include "kernels/ops/random.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

ContextShape Shape(int64_t rows, int64_t keys, MemoryPolicy policy = MemoryPolicy::kMerge) {
  return {.rows = rows, .memory = {.rows = keys, .policy = policy}};
}

ModelConfig Config() {
  return MakeTestModel({.d_model = 128, .n_heads = 4, .n_kv_heads = 2, .n_layers = 3}).config;
}

int64_t Count(const std::vector<MemoryPhase>& phases, MemoryStage stage) {
  return std::count_if(phases.begin(), phases.end(),
                       [stage](const MemoryPhase& phase) { return phase.stage == stage; });
}

// The order of seed 5, from its definition.
std::vector<int32_t> MergedRows(int64_t rows, const std::vector<int64_t>& append_starts) {
  std::vector<int32_t> order;
  uint64_t path = 0;
  for (const RowRange& block : EncodeBlocks(rows, append_starts)) {
    std::vector<int32_t> of_block(block.rows);
    kernels::DrawOrder(5, path, block.rows, of_block.data());
    for (const int32_t row : of_block) order.push_back(static_cast<int32_t>(block.first) + row);
    path = path == 0 ? 2 : path + 1;
  }
  return order;
}

// The number of rows of each segment that is encoded.
std::vector<int64_t> RowsOf(const MemoryPlan& plan) {
  std::vector<int64_t> rows;
  for (int64_t i = plan.first_segment(); i < plan.segments(); ++i) {
    rows.push_back(plan.Segment(i).rows);
  }
  return rows;
}

TEST(MemoryPlanTest, AppendedRowsAreSegmentsOfTheirOwn) {
  using Rows = std::vector<int64_t>;
  const ContextShape shape = Shape(5'000, 100);
  EXPECT_EQ(RowsOf(MemoryPlan(Config(), shape)), (Rows{1'024, 1'024, 1'024, 1'024, 904}));
  EXPECT_EQ(RowsOf(MemoryPlan(Config(), shape, {1'030, 1'031, 3'900})),
            (Rows{1'024, 6, 1, 1'024, 1'024, 821, 1'024, 76}));
  // Also if the first rows alone are not reduced.
  const MemoryPlan small(Config(), Shape(120, 100), {64, 65});
  EXPECT_EQ(RowsOf(small), (Rows{64, 1, 55}));
  EXPECT_EQ(small.Segment(1).set_keys, 64);
  EXPECT_EQ(small.Segment(2).set_keys, 65);
}

TEST(MemoryPlanTest, APrefixReplacesItsSegments) {
  const ContextShape shape = Shape(5'000, 100);
  const std::vector<int64_t> starts = {1'030, 1'031, 3'900};
  const MemoryPlan whole(Config(), shape, starts);
  const std::vector<int64_t> all = RowsOf(whole);
  for (const auto& [prefix, segments] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {1'030, 2}, {1'031, 3}, {3'900, 6}}) {
    const MemoryPlan plan(Config(), shape, starts, prefix);
    EXPECT_EQ(plan.first_segment(), segments);
    EXPECT_EQ(plan.segments(), whole.segments());
    EXPECT_EQ(RowsOf(plan), std::vector<int64_t>(all.begin() + segments, all.end()));
    if (prefix > 0) EXPECT_EQ(plan.Segment(segments).set_keys, 100);
    EXPECT_LE(plan.flops(), whole.flops());
  }
}

// For all divisions into two blocks, and with an append of one row; some reach the bounds.
TEST(MemoryPlanTest, BoundsHoldForAllAppends) {
  const ModelConfig config = Config();
  for (const auto& [rows, keys] : std::vector<std::pair<int64_t, int64_t>>{
           {80, 64}, {1'030, 64}, {1'100, 64}, {1'700, 700}, {2'300, 1'200}}) {
    const ContextShape shape = Shape(rows, keys);
    int64_t most_keys = 0;
    int64_t most_rows = 0;
    const auto add = [&](const std::vector<int64_t>& starts) {
      const MemoryPlan plan(config, shape, starts);
      for (int64_t i = 0; i < plan.segments(); ++i) {
        most_keys = std::max(most_keys, plan.Segment(i).keys());
        most_rows = std::max(most_rows, plan.Segment(i).rows);
      }
    };
    add({});
    for (int64_t first = 1; first < rows; ++first) {
      add({first});
      if (first + 1 < rows) add({first, first + 1});
    }
    const MemoryPlan plan(config, shape);
    EXPECT_EQ(plan.max_keys(), most_keys) << rows;
    EXPECT_EQ(plan.max_segment_rows(), most_rows) << rows;
  }
}

TEST(MemoryPlanDeathTest, BrokenRequirementsStopTheProcess) {
  const ContextShape shape = Shape(200, 100);
  EXPECT_DEATH(MemoryPlan(Config(), Shape(100, 100)), "fewer keys than rows");
  EXPECT_DEATH(MemoryPlan(Config(), shape, {150, 140}), "append_starts are ascending");
  EXPECT_DEATH(MemoryPlan(Config(), shape, {150}, 140), "the prefix is one of");
  EXPECT_DEATH(MemoryPlan(Config(), shape, {90}, 90), "the prefix is reduced");
  EXPECT_DEATH(MemoryPlan(Config(), Shape(200, 100, MemoryPolicy::kHeavy), {150}),
               "the policy allows appended rows");
}

TEST(MemoryPlanTest, SegmentsAreAllRowsInTheirOrder) {
  for (const auto& [rows, keys] : std::vector<std::pair<int64_t, int64_t>>{{65, 64},
                                                                           {1'024, 64},
                                                                           {1'025, 64},
                                                                           {2'050, 2'049},
                                                                           {5'000, 2'047},
                                                                           {5'000, 1'500},
                                                                           {9'001, 3'000},
                                                                           {1'000'000, 2'048}}) {
    const MemoryPlan plan(Config(), Shape(rows, keys));
    int64_t next = 0;
    for (int64_t i = 0; i < plan.segments(); ++i) {
      const MemorySegment segment = plan.Segment(i);
      EXPECT_EQ(segment.first, next);
      EXPECT_GE(segment.rows, 1);
      EXPECT_LE(segment.rows, std::max<int64_t>(1'024, keys / 2 + 64));
      EXPECT_EQ(segment.set_keys, std::min(next, keys));
      if (i >= 2) EXPECT_EQ(segment.set_keys, keys);  // full after two segments
      EXPECT_LE(segment.keys(), plan.max_keys());
      next += segment.rows;
    }
    EXPECT_GE(next, keys);  // the last set is full
    EXPECT_EQ(next, rows);
  }
}

TEST(MemoryPlanTest, PhasesOfThePolicies) {
  const MemoryPlan merge(Config(), Shape(5'000, 100));
  const MemoryPlan heavy(Config(), Shape(5'000, 100, MemoryPolicy::kHeavy));
  EXPECT_EQ(merge.measuring_rows(), 0);
  EXPECT_EQ(heavy.measuring_rows(), 1'024);
  EXPECT_EQ(MemoryPlan(Config(), Shape(700, 100, MemoryPolicy::kSample)).measuring_rows(), 700);
  const std::vector<MemoryPhase> merging = merge.Phases(merge.Segment(1));
  const std::vector<MemoryPhase> measuring = heavy.Phases(heavy.Segment(1));
  for (const MemoryStage stage :
       {MemoryStage::kLoad, MemoryStage::kProject, MemoryStage::kChoose, MemoryStage::kStore}) {
    EXPECT_EQ(Count(merging, stage), 3);
    EXPECT_EQ(Count(measuring, stage), 3);
  }
  EXPECT_EQ(Count(merging, MemoryStage::kAttend), 2);
  EXPECT_EQ(Count(merging, MemoryStage::kSpread), 3);
  EXPECT_EQ(Count(merging, MemoryStage::kDivide), 3);
  EXPECT_EQ(Count(merging, MemoryStage::kSpreadCells), 3);
  EXPECT_EQ(Count(merging, MemoryStage::kMeasure), 0);
  EXPECT_EQ(Count(measuring, MemoryStage::kSpread), 0);
  EXPECT_EQ(Count(measuring, MemoryStage::kDivide), 0);
  EXPECT_EQ(Count(measuring, MemoryStage::kSpreadCells), 0);
  EXPECT_EQ(Count(measuring, MemoryStage::kMeasure), 3);
  EXPECT_EQ(Count(measuring, MemoryStage::kImportance), 3);
  // The first segment does not fill the set, and nothing is chosen.
  const MemoryPlan full(Config(), Shape(5'000, 3'000, MemoryPolicy::kHeavy));
  EXPECT_EQ(Count(full.Phases(full.Segment(0)), MemoryStage::kMeasure), 0);
  EXPECT_EQ(full.Phases(full.Segment(0)).back().units, 1'536);  // all are stored
  EXPECT_EQ(Count(full.Phases(full.Segment(1)), MemoryStage::kMeasure), 3);
  EXPECT_EQ(full.Phases(full.Segment(1)).back().units, 3'000);
}

TEST(MemoryPlanTest, CellsHave128KeysOnAverage) {
  const MemoryPlan plan(Config(), Shape(20'000, 2'048));
  EXPECT_EQ(plan.Cells(3'072), 24);
  EXPECT_EQ(plan.Cells(2'049), 17);
  EXPECT_EQ(plan.Cells(127), 1);
  EXPECT_EQ(plan.Cells(129), 2);
  EXPECT_EQ(MemoryPlan(Config(), Shape(1'000, 5)).Cells(1'000), 5);  // no more than centres
  for (const MemoryPhase& phase : plan.Phases(plan.Segment(2))) {
    if (phase.stage == MemoryStage::kSpread) EXPECT_EQ(phase.units, 24);
    if (phase.stage == MemoryStage::kDivide) EXPECT_EQ(phase.units, 2);  // heads
    if (phase.stage == MemoryStage::kSpreadCells) EXPECT_EQ(phase.units, 24 * 2);
  }
}

TEST(MemoryPlanTest, FlopsAreThoseOfAllPhases) {
  for (const MemoryPolicy policy :
       {MemoryPolicy::kMerge, MemoryPolicy::kHeavy, MemoryPolicy::kSample}) {
    for (const int64_t rows : {200, 1'024, 1'100, 2'048, 2'049, 3'100, 20'000}) {
      const ContextShape shape = Shape(rows, rows == 1'100 ? 1'090 : 128, policy);
      const MemoryPlan plan(Config(), shape);
      double flops = plan.DrawRowsPhase().flops();
      for (int64_t i = 0; i < plan.segments(); ++i) {
        for (const MemoryPhase& phase : plan.Phases(plan.Segment(i))) {
          EXPECT_GE(phase.units, 1);
          EXPECT_GT(phase.unit_flops, 0);
          flops += phase.flops();
        }
      }
      EXPECT_NEAR(EncodeFlops(Config(), shape) / flops, 1, 1e-9);
    }
  }
}

// Twice the rows cost twice as much, and many rows much less than with all keys.
TEST(MemoryPlanTest, FlopsAreLinearInRows) {
  const double flops = EncodeFlops(Config(), Shape(100'000, 1'024));
  EXPECT_NEAR(EncodeFlops(Config(), Shape(200'000, 1'024)) / flops, 2, 0.05);
  EXPECT_LT(5 * flops, EncodeFlops(Config(), {.rows = 100'000}));
  EXPECT_EQ(EncodeFlops(Config(), Shape(500, 500)), EncodeFlops(Config(), {.rows = 500}));
}

// Of any number of keys, a task is about as long as a chunk of 64 rows that attend to 8,192 keys.
TEST(MemoryPlanTest, TasksAreBounded) {
  const ModelConfig config = Config();
  const double chunk = 64 * AttendAndFeedForwardFlops(config, 8'192);
  for (const int64_t keys : {64, 1'000, 2'048, 20'000, 100'000}) {
    for (const MemoryPolicy policy :
         {MemoryPolicy::kMerge, MemoryPolicy::kHeavy, MemoryPolicy::kSample}) {
      const MemoryPlan plan(config, Shape(1'000'000, keys, policy));
      std::vector<MemoryPhase> phases = plan.Phases(plan.Segment(1));
      phases.push_back(plan.DrawRowsPhase());
      for (const MemoryPhase& phase : phases) {
        if (phase.task_units == 0) continue;
        const int64_t units = std::min(phase.units, phase.task_units);
        EXPECT_LE(static_cast<double>(units) * phase.unit_flops, 2 * chunk)
            << keys << " " << static_cast<int>(phase.stage);
      }
    }
  }
}

// A key that is not merged is copied once.
TEST(MemoryPlanTest, StoringCostsTheKeysThatAreRead) {
  const auto flops = [](MemoryPolicy policy) {
    const MemoryPlan plan(Config(), Shape(5'000, 512, policy));
    return plan.Phases(plan.Segment(1)).back().flops();
  };
  EXPECT_NEAR(flops(MemoryPolicy::kMerge) / flops(MemoryPolicy::kHeavy), (1'024 + 512) / 512.0,
              1e-9);
  EXPECT_EQ(flops(MemoryPolicy::kSample), flops(MemoryPolicy::kHeavy));
}

TEST(MemoryPlanTest, RandomRows) {
  const auto draw = [](uint64_t seed, const ContextShape& shape) {
    return MemoryPlan(Config(), shape).DrawRows(seed);
  };
  const MemoryRows merged = draw(5, Shape(3'000, 100));
  EXPECT_EQ(merged.order, MergedRows(3'000, {}));
  EXPECT_NE(merged.order, draw(6, Shape(3'000, 100)).order);
  EXPECT_TRUE(merged.measuring.empty());
  EXPECT_TRUE(merged.measuring_index.empty());
  const MemoryRows sampled = draw(5, Shape(3'000, 100, MemoryPolicy::kSample));
  EXPECT_EQ(sampled.order, merged.order);
  const std::vector<int32_t>& measuring = sampled.measuring;
  EXPECT_EQ(std::set<int32_t>(measuring.begin(), measuring.end()).size(), 1'024u);
  EXPECT_NE(measuring, std::vector<int32_t>(merged.order.end() - 1'024, merged.order.end()));
  ASSERT_EQ(sampled.measuring_index.size(), 3'000u);
  for (int32_t i = 0; i < 1'024; ++i) EXPECT_EQ(sampled.measuring_index[measuring[i]], i);
  EXPECT_EQ(std::count(sampled.measuring_index.begin(), sampled.measuring_index.end(), -1), 1'976);
  EXPECT_EQ(draw(5, Shape(700, 100, MemoryPolicy::kHeavy)).measuring.size(), 700u);
}

// The rows of a block are drawn from the seed and the number of its append alone.
TEST(MemoryPlanTest, RandomRowsOfAppends) {
  const std::vector<int64_t> starts = {1'100, 1'101, 2'500};
  const MemoryPlan plan(Config(), Shape(3'000, 100), starts);
  const MemoryRows rows = plan.DrawRows(5);
  EXPECT_EQ(rows.order, MergedRows(3'000, starts));
  for (const int64_t start : starts) {
    const std::vector<int64_t> before(starts.begin(),
                                      std::find(starts.begin(), starts.end(), start));
    const std::vector<int32_t> earlier =
        MemoryPlan(Config(), Shape(start, 100), before).DrawRows(5).order;
    EXPECT_TRUE(std::equal(earlier.begin(), earlier.end(), rows.order.begin())) << start;
    const MemoryPlan with_prefix(Config(), Shape(3'000, 100), starts, start);
    const MemoryRows later = with_prefix.DrawRows(5);
    EXPECT_EQ(later.order, std::vector<int32_t>(rows.order.begin() + start, rows.order.end()));
    for (int64_t i = with_prefix.first_segment(); i < plan.segments(); ++i) {
      EXPECT_EQ(later.Of(plan.Segment(i)), rows.Of(plan.Segment(i)));
    }
  }
}

TEST(MemoryPlanTest, StreamsAreDistinct) {
  std::set<uint32_t> streams;
  for (int64_t segment = 0; segment < 5; ++segment) {
    for (int64_t layer = 0; layer < 3; ++layer) {
      for (int64_t head = 0; head < 2; ++head) {
        EXPECT_TRUE(streams.insert(MemoryStream(Config(), segment, layer, head)).second);
      }
    }
  }
}

}  // namespace
}  // namespace chorale
