// The encoding of reduced contexts as work: its steps, its costs, and what does not change its
// results.
#include "engine/backend/cpu/memory_encode.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/flop_model.h"
#include "engine/data/feature_rows.h"
#include "gtest/gtest.h"
#include "tests/engine/backend/backend_driver.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

const std::vector<MemoryPolicy> kPolicies = {MemoryPolicy::kMerge, MemoryPolicy::kHeavy,
                                             MemoryPolicy::kSample};

TestModelOptions SmallModel() {
  return {.row_encoder = "cell_attention",
          .d_model = 16,
          .n_heads = 2,
          .n_kv_heads = 2,
          .n_layers = 2,
          .d_ff = 16};
}

// The bytes of the encoded context.
std::string BytesOf(BackendDriver& driver, const ResidentContext& context) {
  return std::string(driver.backend().ContextMemory(context.kv), context.kv.bytes);
}

struct Encoding {
  int64_t rows = 2'200;  // two segments and a part of one
  MemorySet memory = {.rows = 70};
  uint64_t seed = 3;
  uint64_t data_seed = 1;

  std::unique_ptr<EncodeWork> New(BackendDriver& driver) const {
    return driver.NewEncode(driver.AddModel(MakeTestModel(SmallModel())),
                            MakeFeatures(rows, 3, data_seed), MakeValues(rows, data_seed + 1),
                            memory, seed);
  }
  std::string Run(int threads, int64_t steps_per_slice) const {
    BackendDriver driver = BackendDriver::Cpu(threads);
    const auto work = New(driver);
    driver.Run(work.get(), steps_per_slice);
    return BytesOf(driver, work->TakeContext());
  }
};

TEST(MemoryEncodeTest, ThreadsAndSlicesChangeNothing) {
  for (const MemoryPolicy policy : kPolicies) {
    const Encoding encoding = {.memory = {.rows = 70, .policy = policy}};
    const std::string expected = encoding.Run(1, 1 << 20);
    EXPECT_TRUE(encoding.Run(1, 1) == expected) << static_cast<int>(policy);
    EXPECT_TRUE(encoding.Run(3, 1) == expected) << static_cast<int>(policy);
    EXPECT_TRUE(encoding.Run(3, 7) == expected) << static_cast<int>(policy);
    EXPECT_TRUE(encoding.Run(5, 1 << 20) == expected) << static_cast<int>(policy);
  }
}

// All rows are alike, so that nearly all keys are in one cell, which takes several rounds of tasks,
// and nothing decides between the keys.
TEST(MemoryEncodeTest, EqualRows) {
  constexpr int64_t kRows = 2'200;
  const MemorySet memory = {.rows = 600};
  const auto run = [&](int threads, int64_t steps) {
    BackendDriver driver = BackendDriver::Cpu(threads);
    const FeatureMatrix features =
        SelectRows(MakeFeatures(kRows, 3, 1), std::vector<int32_t>(kRows, 0));
    const auto work = driver.NewEncode(driver.AddModel(MakeTestModel(SmallModel())), features,
                                       std::vector<float>(kRows, 0.5f), memory, 3);
    const auto advance = [&](int64_t max_steps) {
      const Slice slice[] = {{.work = work.get(), .max_steps = max_steps}};
      ASSERT_TRUE(driver.backend().Advance(slice).ok());
    };
    for (int column = 0; column < 3; ++column) advance(1);  // the fit of the row encoder
    double flops = 0;
    while (!work->done()) {
      const int64_t at_once = std::min(steps, work->steps_at_this_cost());
      flops += work->next_flops(at_once);
      advance(at_once);
    }
    const ContextShape shape = {.rows = kRows, .memory = memory};
    EXPECT_NEAR(flops / EncodeFlops(MakeTestModel(SmallModel()).config, shape), 1, 1e-9);
    return BytesOf(driver, work->TakeContext());
  };
  const std::string expected = run(1, 1 << 20);
  EXPECT_TRUE(run(3, 1) == expected);
  EXPECT_TRUE(run(4, 7) == expected);
}

TEST(MemoryEncodeTest, OtherWorkChangesNothing) {
  std::vector<Encoding> encodings;
  for (const MemoryPolicy policy : kPolicies) {
    encodings.push_back({.memory = {.rows = 70, .policy = policy}});
  }
  encodings.push_back({.rows = 300, .memory = {.rows = 100}, .data_seed = 9});
  encodings.push_back({.rows = 200, .memory = {}, .data_seed = 8});
  BackendDriver driver = BackendDriver::Cpu(3);
  std::vector<std::unique_ptr<EncodeWork>> works;
  std::vector<Work*> all;
  for (const Encoding& encoding : encodings) {
    works.push_back(encoding.New(driver));
    all.push_back(works.back().get());
  }
  driver.RunAll(all, 5);
  for (size_t i = 0; i < works.size(); ++i) {
    EXPECT_TRUE(BytesOf(driver, works[i]->TakeContext()) == encodings[i].Run(1, 1'000)) << i;
  }
}

TEST(MemoryEncodeTest, SeedsAndPoliciesDiffer) {
  const std::string merged = Encoding().Run(2, 1'000);
  EXPECT_FALSE(Encoding({.seed = 4}).Run(2, 1'000) == merged);
  const std::string heavy =
      Encoding({.memory = {.rows = 70, .policy = MemoryPolicy::kHeavy}}).Run(2, 1'000);
  EXPECT_EQ(heavy.size(), merged.size());
  EXPECT_FALSE(heavy == merged);
}

// A set of as many keys as there are rows, or more, has the bits of no set.
TEST(MemoryEncodeTest, ASetOfAllRowsHasTheBitsOfNoSet) {
  const std::string expected = Encoding({.rows = 300, .memory = {}}).Run(2, 1'000);
  for (const MemoryPolicy policy : kPolicies) {
    for (const int64_t keys : {300, 301, 5'000}) {
      const Encoding encoding = {.rows = 300, .memory = {.rows = keys, .policy = policy}};
      EXPECT_TRUE(encoding.Run(2, 1'000) == expected) << keys;
    }
  }
}

// Also a set of more than a segment: all keys of the first are kept, and a later one chooses.
TEST(MemoryEncodeTest, SetsOfManyKeysAndSegmentsOfFewRows) {
  for (const MemoryPolicy policy : kPolicies) {
    for (const auto& [rows, keys] : std::vector<std::pair<int64_t, int64_t>>{
             {2'301, 2'300}, {3'000, 1'100}, {1'025, 64}, {2, 1}, {65, 64}, {2'048, 2'047}}) {
      SCOPED_TRACE(testing::Message() << rows << " -> " << keys);
      BackendDriver driver = BackendDriver::Cpu(2);
      const Encoding encoding = {.rows = rows, .memory = {.rows = keys, .policy = policy}};
      const auto work = encoding.New(driver);
      driver.Run(work.get(), 100);
      const ResidentContext context = work->TakeContext();
      EXPECT_EQ(context.shape, (ContextShape{.rows = rows, .memory = encoding.memory}));
      const std::string bytes = BytesOf(driver, context);
      const ModelConfig config = MakeTestModel(SmallModel()).config;
      const cpu::ContextLayout layout(config, context.shape);
      ASSERT_EQ(static_cast<int64_t>(bytes.size()), layout.bytes());
      const auto* memory =
          reinterpret_cast<const float*>(driver.backend().ContextMemory(context.kv));
      for (int64_t l = 0; l < config.n_layers; ++l) {
        const cpu::ContextLayer<const float> layer = layout.Layer(memory, l);
        for (int64_t h = 0; h < config.n_kv_heads; ++h) {
          double weights = 0;
          for (int64_t j = 0; j < keys; ++j) {
            for (int64_t d = 0; d < config.head_dim(); ++d) {
              ASSERT_TRUE(std::isfinite(layer.kv.values[(h * keys + j) * config.head_dim() + d]));
            }
            weights += std::exp(layer.log_weights[h * keys + j]);
          }
          // Merging keeps the sum of weights, and heavy hitters have weights of 1.
          if (policy == MemoryPolicy::kMerge) EXPECT_NEAR(weights / rows, 1, 1e-4);
          if (policy == MemoryPolicy::kHeavy) EXPECT_EQ(weights, keys);
        }
      }
    }
  }
}

// Step by step: the sum of the announced costs is the estimate, no step is long, and steps that
// were announced to cost the same do.
TEST(MemoryEncodeTest, StepsAreBoundedAndCostWhatIsEstimated) {
  for (const MemoryPolicy policy : kPolicies) {
    for (const auto& [rows, keys] :
         std::vector<std::pair<int64_t, int64_t>>{{300, 64}, {2'200, 70}, {4'000, 2'500}}) {
      SCOPED_TRACE(testing::Message()
                   << static_cast<int>(policy) << ": " << rows << " -> " << keys);
      BackendDriver driver = BackendDriver::Cpu(1);
      const Encoding encoding = {.rows = rows, .memory = {.rows = keys, .policy = policy}};
      const auto work = encoding.New(driver);
      const auto step = [&] {
        const Slice slice[] = {{.work = work.get(), .max_steps = 1}};
        ASSERT_TRUE(driver.backend().Advance(slice).ok());
      };
      for (int column = 0; column < 3; ++column) step();  // the fit of the row encoder
      const ModelConfig config = MakeTestModel(SmallModel()).config;
      // Of a chunk of 64 rows that attend to 8,192 keys.
      const double bound = 64 * AttendAndFeedForwardFlops(config, 8'192);
      double flops = 0;
      double announced = 0;
      int64_t at_this_cost = 0;
      while (!work->done()) {
        EXPECT_LE(work->next_step_flops(), 3 * bound);
        if (at_this_cost > 0) {
          EXPECT_LE(work->next_step_flops(), announced);
        } else {
          announced = work->next_step_flops();
          at_this_cost = work->steps_at_this_cost();
          ASSERT_GE(at_this_cost, 1);
        }
        --at_this_cost;
        flops += work->next_step_flops();
        step();
      }
      EXPECT_EQ(at_this_cost, 0);
      EXPECT_EQ(work->steps_at_this_cost(), 0);
      EXPECT_EQ(work->next_step_flops(), 0);
      const ContextShape shape = {.rows = rows, .memory = encoding.memory};
      EXPECT_NEAR(flops / EncodeFlops(config, shape), 1, 1e-9);
    }
  }
}

// In slices as long as possible, on so many threads that the last step of a phase is shorter than
// the others.
TEST(MemoryEncodeTest, SlicesCostWhatIsEstimated) {
  for (const MemoryPolicy policy : kPolicies) {
    for (const auto& [rows, keys] :
         std::vector<std::pair<int64_t, int64_t>>{{300, 64}, {2'200, 70}, {4'000, 2'500}}) {
      SCOPED_TRACE(testing::Message()
                   << static_cast<int>(policy) << ": " << rows << " -> " << keys);
      BackendDriver driver = BackendDriver::Cpu(6);
      const Encoding encoding = {.rows = rows, .memory = {.rows = keys, .policy = policy}};
      const auto work = encoding.New(driver);
      const auto advance = [&](int64_t steps) {
        const Slice slice[] = {{.work = work.get(), .max_steps = steps}};
        ASSERT_TRUE(driver.backend().Advance(slice).ok());
      };
      advance(3);  // the fit of the row encoder: a step for each column
      double flops = 0;
      while (!work->done()) {
        const int64_t steps = work->steps_at_this_cost();
        flops += work->next_flops(steps);
        advance(steps);
      }
      const ContextShape shape = {.rows = rows, .memory = encoding.memory};
      EXPECT_NEAR(flops / EncodeFlops(MakeTestModel(SmallModel()).config, shape), 1, 1e-9);
    }
  }
}

// Decodes, densities and predictions cost what their keys cost.
TEST(MemoryEncodeTest, LaterWorkCostsTheKeysOfTheSet) {
  BackendDriver driver = BackendDriver::Cpu(1);
  ModelCase many = {.options = SmallModel(), .context_rows = 2'500, .memory = {.rows = 64}};
  ModelCase few = {.options = SmallModel(), .context_rows = 64};
  const LoadedCase reduced(many, driver, 1'000);
  const LoadedCase whole(few, driver, 1'000);
  using Order = LoadedCase::Order;
  EXPECT_EQ(reduced.DecodeDrawn(0, 5, Order::kGiven)->next_step_flops(),
            whole.DecodeDrawn(0, 5, Order::kGiven)->next_step_flops());
  EXPECT_EQ(reduced.Predict(0, 11)->next_step_flops(), whole.Predict(0, 11)->next_step_flops());
}

TEST(MemoryEncodeDeathTest, BrokenRequirementsStopTheProcess) {
  BackendDriver driver = BackendDriver::Cpu(1);
  const auto model = driver.AddModel(MakeTestModel(SmallModel()));
  EXPECT_DEATH(driver.NewEncode(model, MakeFeatures(100, 3, 1), MakeValues(99, 2), {.rows = 64}),
               "y is");
  const auto unfinished =
      driver.NewEncode(model, MakeFeatures(100, 3, 1), MakeValues(100, 2), {.rows = 64});
  EXPECT_DEATH(unfinished->TakeContext(), "the context is encoded");
}

}  // namespace
}  // namespace chorale
