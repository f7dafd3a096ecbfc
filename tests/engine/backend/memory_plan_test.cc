#include "engine/backend/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "engine/backend/flop_model.h"
#include "gtest/gtest.h"
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
  const std::vector<int32_t> order = MemoryRowOrder(5, 3'000);
  EXPECT_EQ(std::set<int32_t>(order.begin(), order.end()).size(), 3'000u);
  EXPECT_EQ(*std::min_element(order.begin(), order.end()), 0);
  EXPECT_EQ(*std::max_element(order.begin(), order.end()), 2'999);
  EXPECT_EQ(order, MemoryRowOrder(5, 3'000));
  EXPECT_NE(order, MemoryRowOrder(6, 3'000));
  const std::vector<int32_t> measuring = MemoryMeasuringRows(5, 3'000, 1'024);
  EXPECT_EQ(std::set<int32_t>(measuring.begin(), measuring.end()).size(), 1'024u);
  EXPECT_NE(measuring, std::vector<int32_t>(order.end() - 1'024, order.end()));
  EXPECT_EQ(MemoryMeasuringRows(5, 700, 700).size(), 700u);
  EXPECT_TRUE(MemoryMeasuringRows(5, 700, 0).empty());
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
