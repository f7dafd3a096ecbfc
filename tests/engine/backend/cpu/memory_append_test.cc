// The encoding of rows that are appended to reduced contexts as work: the memory that it leaves,
// its steps and their costs.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/cpu/context_layout.h"
#include "engine/backend/encode_blocks.h"
#include "engine/backend/flop_model.h"
#include "gtest/gtest.h"
#include "tests/engine/backend/backend_driver.h"
#include "tests/engine/backend/model_case.h"

namespace chorale {
namespace {

using Context = std::shared_ptr<const ResidentContext>;

// One row, a few rows, and more than a segment are appended to a segment and a part of one, to rows
// that are not reduced alone, and to a set that a segment does not fill.
std::vector<ModelCase> Cases() {
  const TestModelOptions small = {.row_encoder = "cell_attention",
                                  .d_model = 16,
                                  .n_heads = 2,
                                  .n_kv_heads = 2,
                                  .n_layers = 2,
                                  .d_ff = 16};
  return {{.options = small,
           .context_rows = 2'300,
           .memory = {.rows = 70},
           .append_starts = {1'100, 1'101, 1'130}},
          {.options = small,
           .context_rows = 300,
           .memory = {.rows = 70},
           .append_starts = {30, 69, 70, 71, 200}},
          {.options = small,
           .context_rows = 2'400,
           .memory = {.rows = 1'100},
           .append_starts = {1'030, 1'090, 1'200}}};
}

// The numbers of rows of the contexts that can be the prefix.
std::vector<int64_t> PrefixesOf(const ModelCase& c) {
  std::vector<int64_t> rows = c.append_starts;
  std::erase_if(rows, [&c](int64_t start) {
    return !CanBePrefix(c.Prefix(start).Shape(), c.Shape(), c.append_starts);
  });
  return rows;
}

std::string BytesOf(BackendDriver& driver, const Context& context) {
  return std::string(driver.backend().ContextMemory(context->kv), context->kv.bytes);
}

std::string Whole(const ModelCase& c, int threads = 2, int64_t steps = 1'000) {
  BackendDriver driver = BackendDriver::Cpu(threads);
  const auto model = driver.AddModel(MakeTestModel(c.options));
  return BytesOf(driver, driver.Encode(c.Encoding(model), steps));
}

TEST(MemoryAppendTest, PrefixesThreadsAndSlicesChangeNothing) {
  for (const ModelCase& c : Cases()) {
    const std::string expected = Whole(c);
    for (const auto& [threads, steps] : std::vector<std::pair<int, int64_t>>{{1, 1}, {3, 7}}) {
      EXPECT_TRUE(Whole(c, threads, steps) == expected) << c.context_rows;
      BackendDriver driver = BackendDriver::Cpu(threads);
      const auto model = driver.AddModel(MakeTestModel(c.options));
      for (const int64_t rows : PrefixesOf(c)) {
        const Context prefix = driver.Encode(c.Prefix(rows).Encoding(model), steps);
        const std::string before = BytesOf(driver, prefix);
        const Context context = driver.Encode(c.Encoding(model, prefix), steps);
        EXPECT_TRUE(BytesOf(driver, context) == expected) << c.context_rows << ": " << rows;
        EXPECT_TRUE(BytesOf(driver, prefix) == before) << "the prefix has changed";
        EXPECT_EQ(context->encoder_state, prefix->encoder_state);
      }
    }
  }
}

// Rows that are encoded together have other keys than rows that are appended.
TEST(MemoryAppendTest, AppendsAreNotARegistration) {
  ModelCase at_once = Cases()[0];
  const std::string appended = Whole(at_once);
  at_once.append_starts = {};
  EXPECT_FALSE(Whole(at_once) == appended);
}

TEST(MemoryAppendTest, TheSetHasTheWeightOfAllRows) {
  for (const ModelCase& c : Cases()) {
    BackendDriver driver = BackendDriver::Cpu(2);
    const auto model = driver.AddModel(MakeTestModel(c.options));
    const Context context = driver.Encode(c.Encoding(model), 1'000);
    EXPECT_EQ(context->shape, c.Shape());
    const cpu::ContextLayout layout(model->config(), context->shape);
    const auto* memory =
        reinterpret_cast<const float*>(driver.backend().ContextMemory(context->kv));
    for (int64_t l = 0; l < model->config().n_layers; ++l) {
      const float* log_weights = layout.Layer(memory, l).log_weights;
      for (int64_t h = 0; h < model->config().n_kv_heads; ++h) {
        double weight = 0;
        for (int64_t j = 0; j < c.memory.rows; ++j) {
          weight += std::exp(log_weights[h * c.memory.rows + j]);
        }
        EXPECT_NEAR(weight / static_cast<double>(c.context_rows), 1, 1e-4);
      }
    }
  }
}

// The memory of the context and the padding of the prefix are NaN before.
TEST(MemoryAppendTest, UnusedMemoryChangesNothing) {
  for (const ModelCase& c : Cases()) {
    BackendDriver driver = BackendDriver::Cpu(2);
    const auto model = driver.AddModel(MakeTestModel(c.options));
    const auto encode = [&](const ModelCase& each, const Context& prefix) {
      EncodeSpec spec = each.Encoding(model, prefix);
      spec.kv = driver.TakeContextRange(model->config(), spec.shape());
      std::fill_n(reinterpret_cast<float*>(driver.backend().ContextMemory(spec.kv)),
                  spec.kv.bytes / static_cast<int64_t>(sizeof(float)),
                  std::numeric_limits<float>::quiet_NaN());
      const auto work = driver.backend().NewEncode(std::move(spec));
      driver.Run(work.get());
      return std::make_shared<const ResidentContext>(work->TakeContext());
    };
    const std::string expected = BytesOf(driver, encode(c, nullptr));
    for (const int64_t rows : PrefixesOf(c)) {
      const Context prefix = encode(c.Prefix(rows), nullptr);
      EXPECT_TRUE(BytesOf(driver, encode(c, prefix)) == expected) << rows;
    }
  }
}

// In slices of one step, and as long as announced. The fit has one step for each column.
TEST(MemoryAppendTest, StepsAndSlicesCostWhatIsEstimated) {
  for (const ModelCase& c : Cases()) {
    std::vector<int64_t> prefixes = PrefixesOf(c);
    prefixes.push_back(0);
    for (const int threads : {1, 6}) {
      BackendDriver driver = BackendDriver::Cpu(threads);
      const auto model = driver.AddModel(MakeTestModel(c.options));
      for (const int64_t rows : prefixes) {
        Context prefix;
        if (rows > 0) prefix = driver.Encode(c.Prefix(rows).Encoding(model), 1'000);
        const double estimate = EncodeFlops(model->config(), c.Shape(), c.append_starts, rows);
        for (const bool whole_slices : {false, true}) {
          const auto work = driver.NewEncode(c.Encoding(model, prefix));
          int64_t fit_steps = prefix == nullptr ? c.features : 0;
          double flops = 0;
          while (!work->done()) {
            const int64_t steps = whole_slices ? work->steps_at_this_cost() : 1;
            if (fit_steps <= 0) flops += work->next_flops(steps);
            fit_steps -= steps;
            const Slice slice[] = {{.work = work.get(), .max_steps = steps}};
            ASSERT_TRUE(driver.backend().Advance(slice).ok());
          }
          EXPECT_NEAR(flops / estimate, 1, 1e-9) << rows << " of " << c.context_rows;
        }
      }
    }
  }
}

// An append costs its segments: of a million rows, next to nothing.
TEST(MemoryAppendTest, AnAppendCostsAFractionOfTheContext) {
  const ModelConfig config = MakeTestModel({.d_model = 128, .n_heads = 4, .n_layers = 12}).config;
  const ContextShape shape = {.rows = 1'000'100, .memory = {.rows = 2'048}};
  const double append = EncodeFlops(config, shape, {1'000'000}, 1'000'000);
  EXPECT_GT(append, 0);
  EXPECT_LT(400 * append, EncodeFlops(config, shape, {1'000'000}));
}

TEST(MemoryAppendDeathTest, BrokenRequirementsStopTheProcess) {
  BackendDriver driver = BackendDriver::Cpu(1);
  const ModelCase good = Cases()[1];
  const auto model = driver.AddModel(MakeTestModel(good.options));
  const Context small = driver.Encode(good.Prefix(70).Encoding(model), 1'000);
  EXPECT_DEATH(driver.NewEncode(good.Encoding(model, small)), "the prefix is reduced");
  const Context prefix = driver.Encode(good.Prefix(200).Encoding(model), 1'000);
  ModelCase bad = good;
  bad.append_starts = {71};
  EXPECT_DEATH(driver.NewEncode(bad.Encoding(model, prefix)), "the prefix is one of");
  bad = good;
  bad.memory.rows = 71;
  EXPECT_DEATH(driver.NewEncode(bad.Encoding(model, prefix)), "the prefix has as many keys");
  const auto same_model = driver.AddModel(MakeTestModel(good.options));
  EXPECT_DEATH(driver.NewEncode(good.Encoding(same_model, prefix)), "of the same model");
  bad = good;
  bad.memory.policy = MemoryPolicy::kSample;
  EXPECT_DEATH(driver.NewEncode(bad.Encoding(model)), "the policy allows appended rows");
}

}  // namespace
}  // namespace chorale
