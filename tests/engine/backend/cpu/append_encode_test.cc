// The encoding of appended rows as work: the keys and values that it leaves, its steps and their
// costs.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/cpu/context_layout.h"
#include "engine/backend/encode_blocks.h"
#include "engine/backend/flop_model.h"
#include "gtest/gtest.h"
#include "kernels/ops/panel_layout.h"
#include "tests/engine/backend/backend_driver.h"
#include "tests/engine/backend/model_case.h"

namespace chorale {
namespace {

using Context = std::shared_ptr<const ResidentContext>;

TestModelOptions SmallModel() {
  return {.row_encoder = "cell_attention",
          .d_model = 32,
          .n_heads = 4,
          .n_kv_heads = 2,
          .n_layers = 3,
          .d_ff = 40};
}

// Appends of one row, of 16, and of more than a block of keys.
ModelCase Appends() {
  return {.options = SmallModel(), .context_rows = 438, .append_starts = {199, 200, 216, 230}};
}

// K, then V, of the first rows in all layers and heads.
std::vector<float> KeysAndValues(BackendDriver& driver, const ResidentContext& context,
                                 int64_t rows) {
  const ModelConfig& config = context.model->config();
  const int64_t width = config.head_dim();
  const cpu::ContextLayout layout(config, context.shape);
  const auto* memory = reinterpret_cast<const float*>(driver.backend().ContextMemory(context.kv));
  std::vector<float> numbers;
  for (int64_t l = 0; l < config.n_layers; ++l) {
    const KvView<const float> kv = layout.Layer(memory, l).kv;
    for (int64_t h = 0; h < config.n_kv_heads; ++h) {
      const float* keys = kv.keys + h * kernels::PackedKeysSize(kv.capacity, width);
      for (int64_t i = 0; i < rows; ++i) {
        const float* key = keys + i / kernels::kPanel * width * kernels::kPanel;
        for (int64_t d = 0; d < width; ++d) {
          numbers.push_back(key[d * kernels::kPanel + i % kernels::kPanel]);
          numbers.push_back(kv.values[(h * kv.capacity + i) * width + d]);
        }
      }
    }
  }
  return numbers;
}

std::vector<float> KeysAndValues(BackendDriver& driver, const Context& context) {
  return KeysAndValues(driver, *context, context->shape.rows);
}

class AppendEncodeTest : public testing::Test {
 protected:
  Context Encode(const ModelCase& model_case, const Context& prefix = nullptr) {
    return driver_.Encode(model_case.Encoding(model_, prefix), 1'000);
  }

  BackendDriver driver_ = BackendDriver::Cpu(2);
  const ModelCase case_ = Appends();
  const std::shared_ptr<const BackendModel> model_ = driver_.AddModel(MakeTestModel(case_.options));
};

TEST_F(AppendEncodeTest, EarlierRowsKeepTheirKeysAndValues) {
  const Context whole = Encode(case_);
  for (const int64_t rows : case_.append_starts) {
    EXPECT_EQ(KeysAndValues(driver_, Encode(case_.Prefix(rows))),
              KeysAndValues(driver_, *whole, rows))
        << rows;
  }
}

// The same rows have other keys if each of them is an append.
TEST_F(AppendEncodeTest, AppendedRowsAttendToEachOther) {
  ModelCase one_by_one = case_.Prefix(216);
  for (int64_t row = 201; row < 216; ++row) one_by_one.append_starts.push_back(row);
  EXPECT_FALSE(KeysAndValues(driver_, Encode(one_by_one)) ==
               KeysAndValues(driver_, Encode(case_.Prefix(216))));
}

TEST_F(AppendEncodeTest, TheRowEncoderIsFittedToTheRowsBeforeTheFirstAppend) {
  const Context base = Encode(case_.Base());
  const std::string state = base->encoder_state->Bytes();
  ASSERT_FALSE(state.empty());
  EXPECT_EQ(Encode(case_)->encoder_state->Bytes(), state);
  EXPECT_EQ(Encode(case_, base)->encoder_state, base->encoder_state);
  ModelCase at_once = case_;
  at_once.append_starts = {};
  EXPECT_NE(Encode(at_once)->encoder_state->Bytes(), state);
}

TEST_F(AppendEncodeTest, AnyPrefixGivesTheSameKeysAndValues) {
  const std::vector<float> expected = KeysAndValues(driver_, Encode(case_));
  for (const int64_t rows : case_.append_starts) {
    EXPECT_EQ(KeysAndValues(driver_, Encode(case_, Encode(case_.Prefix(rows)))), expected) << rows;
  }
}

// A prefix of more rows than a task copies.
TEST_F(AppendEncodeTest, ALargePrefix) {
  const ModelCase large = {
      .options = SmallModel(), .context_rows = 2'100, .append_starts = {2'050, 2'083}};
  EXPECT_EQ(KeysAndValues(driver_, Encode(large, Encode(large.Prefix(2'083)))),
            KeysAndValues(driver_, Encode(large)));
}

// Rows that are not encoded yet, and the padding of the last panel, are NaN in the context and in
// the prefix.
TEST_F(AppendEncodeTest, UnusedMemoryChangesNothing) {
  const auto poison = [&](const PoolRange& range) {
    std::fill_n(reinterpret_cast<float*>(driver_.backend().ContextMemory(range)),
                range.bytes / static_cast<int64_t>(sizeof(float)),
                std::numeric_limits<float>::quiet_NaN());
  };
  const auto encode = [&](const ModelCase& model_case, const Context& prefix) {
    EncodeSpec spec = model_case.Encoding(model_, prefix);
    spec.kv = driver_.TakeContextRange(model_->config(), spec.shape());
    poison(spec.kv);
    const auto work = driver_.backend().NewEncode(std::move(spec));
    driver_.Run(work.get());
    return std::make_shared<const ResidentContext>(work->TakeContext());
  };
  const std::vector<float> expected = KeysAndValues(driver_, Encode(case_));
  EXPECT_EQ(KeysAndValues(driver_, encode(case_, nullptr)), expected);
  for (const int64_t rows : case_.append_starts) {
    const Context prefix = encode(case_.Prefix(rows), nullptr);
    EXPECT_EQ(KeysAndValues(driver_, encode(case_, prefix)), expected) << rows;
  }
}

// The copy of a prefix leaves the padding of the context as it was.
TEST_F(AppendEncodeTest, NoPaddingIsCopied) {
  const ModelCase one_panel = {.options = SmallModel(), .context_rows = 10, .append_starts = {7}};
  const Context prefix = Encode(one_panel.Prefix(7));
  auto* memory = reinterpret_cast<float*>(driver_.backend().ContextMemory(prefix->kv));
  const Context expected = Encode(one_panel, prefix);
  const cpu::ContextLayout layout(model_->config(), prefix->shape);
  for (int64_t l = 0; l < model_->config().n_layers; ++l) {
    float* keys = layout.Layer(memory, l).kv.keys;
    const int64_t width = model_->config().n_kv_heads * model_->config().head_dim();
    for (int64_t d = 0; d < width; ++d) std::fill_n(keys + d * kernels::kPanel + 7, 9, 1e9f);
  }
  const Context found = Encode(one_panel, prefix);
  const auto bytes = [&](const Context& context) {
    return std::string(driver_.backend().ContextMemory(context->kv), context->kv.bytes);
  };
  EXPECT_TRUE(bytes(found) == bytes(expected));
}

struct Costs {
  double fit = 0;
  double other = 0;
  int64_t steps = 0;
};

// Takes the work to its end, in slices of one step or as long as announced. The fit has one step
// for each column.
Costs CostsOf(Backend& backend, EncodeWork* work, int64_t fit_steps, bool whole_slices) {
  Costs costs;
  while (!work->done()) {
    const int64_t announced = work->steps_at_this_cost();
    const int64_t steps = whole_slices ? announced : 1;
    EXPECT_GE(announced, 1);
    EXPECT_GT(work->next_step_flops(), 0);
    (costs.steps < fit_steps ? costs.fit : costs.other) += work->next_flops(steps);
    costs.steps += steps;
    const Slice slice[] = {{.work = work, .max_steps = steps}};
    EXPECT_TRUE(backend.Advance(slice).ok());
  }
  EXPECT_EQ(work->steps_at_this_cost(), 0);
  EXPECT_EQ(work->next_step_flops(), 0);
  return costs;
}

TEST_F(AppendEncodeTest, StepsAndSlicesCostWhatIsEstimated) {
  const ContextShape shape = {.rows = case_.context_rows};
  std::vector<int64_t> prefixes = case_.append_starts;
  prefixes.push_back(0);
  for (const int threads : {1, 6}) {
    BackendDriver driver = BackendDriver::Cpu(threads);
    const auto model = driver.AddModel(MakeTestModel(case_.options));
    for (const int64_t rows : prefixes) {
      Context prefix;
      if (rows > 0) prefix = driver.Encode(case_.Prefix(rows).Encoding(model), 1'000);
      const double estimate = EncodeFlops(model->config(), shape, case_.append_starts, rows);
      const int64_t fit_steps = prefix == nullptr ? case_.features : 0;
      for (const bool whole_slices : {false, true}) {
        const auto work = driver.NewEncode(case_.Encoding(model, prefix));
        const Costs costs = CostsOf(driver.backend(), work.get(), fit_steps, whole_slices);
        EXPECT_NEAR(costs.other / estimate, 1, 1e-9) << rows << " of " << threads;
        EXPECT_EQ(costs.fit > 0, rows == 0);
      }
    }
  }
}

// 199 rows in chunks of 64 on one thread, then 1, 16, 14 and 208; or the copy of 216 rows in one
// task, then 14 and 208.
TEST_F(AppendEncodeTest, StepsAreBounded) {
  BackendDriver driver = BackendDriver::Cpu(1);
  const auto model = driver.AddModel(MakeTestModel(case_.options));
  const int64_t layers = case_.options.n_layers;
  const auto whole = driver.NewEncode(case_.Encoding(model));
  EXPECT_EQ(CostsOf(driver.backend(), whole.get(), 0, false).steps,
            case_.features + layers * (4 + 1 + 1 + 1 + 4));
  const Context prefix = driver.Encode(case_.Prefix(216).Encoding(model), 1'000);
  const auto appended = driver.NewEncode(case_.Encoding(model, prefix));
  EXPECT_EQ(CostsOf(driver.backend(), appended.get(), 0, false).steps, layers * (1 + 1 + 4));
}

// At 4,000 rows, of which the copy costs less than the encoding of 32 rows.
TEST(AppendFlopsTest, AnAppendCostsAFractionOfTheContext) {
  const ModelConfig config =
      MakeTestModel({.d_model = 128, .n_heads = 4, .n_layers = 12, .d_ff = 256}).config;
  for (const int64_t rows : {1, 16, 256}) {
    const ContextShape shape = {.rows = 4'000 + rows};
    const double append = EncodeFlops(config, shape, {4'000}, 4'000);
    EXPECT_GT(append, 0);
    EXPECT_LT(append, EncodeFlops(config, shape) * static_cast<double>(rows + 32) / 4'000) << rows;
  }
}

TEST(AppendFlopsTest, ABlockCostsTheKeysUpToItsEnd) {
  const ModelConfig config = MakeTestModel(SmallModel()).config;
  const double base = EncodeFlops(config, {.rows = 100});
  const double whole = EncodeFlops(config, {.rows = 150}, {100});
  EXPECT_LT(whole, EncodeFlops(config, {.rows = 150}));
  // Without the copy, the rows after the prefix cost what they cost without a prefix.
  const std::vector<double> copy = CopyPhaseFlops(config);
  EXPECT_NEAR(EncodeFlops(config, {.rows = 150}, {100}, 100),
              whole - base + 100 * std::accumulate(copy.begin(), copy.end(), 0.0), 1e-9 * whole);
  const std::vector<double> rows = EncodePhaseFlops(config, 150);
  EXPECT_NEAR(whole - base, 50 * std::accumulate(rows.begin(), rows.end(), 0.0), 1e-9 * whole);
}

TEST(EncodeBlocksTest, BlocksAfterThePrefix) {
  const auto firsts = [](const std::vector<RowRange>& blocks) {
    std::vector<int64_t> numbers;
    for (const RowRange& block : blocks) {
      numbers.push_back(block.first);
      numbers.push_back(block.rows);
    }
    return numbers;
  };
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(firsts(EncodeBlocks(9, {})), (Numbers{0, 9}));
  EXPECT_EQ(firsts(EncodeBlocks(9, {4, 5})), (Numbers{0, 4, 4, 1, 5, 4}));
  EXPECT_EQ(firsts(EncodeBlocks(9, {4, 5}, 4)), (Numbers{4, 1, 5, 4}));
  EXPECT_EQ(firsts(EncodeBlocks(9, {4, 5}, 5)), (Numbers{5, 4}));
}

TEST(EncodeBlocksTest, PrefixesEndAtAppendsAndAreReducedLikeTheContext) {
  EXPECT_TRUE(CanBePrefix({.rows = 50}, {.rows = 60}, {50, 55}));
  EXPECT_TRUE(CanBePrefix({.rows = 55}, {.rows = 60}, {50, 55}));
  EXPECT_FALSE(CanBePrefix({.rows = 51}, {.rows = 60}, {50, 55}));
  EXPECT_FALSE(CanBePrefix({.rows = 60}, {.rows = 60}, {50, 55}));
  const MemorySet set = {.rows = 64};
  EXPECT_TRUE(CanBePrefix({.rows = 65, .memory = set}, {.rows = 70, .memory = set}, {65}));
  EXPECT_FALSE(CanBePrefix({.rows = 64, .memory = set}, {.rows = 70, .memory = set}, {64}));
  EXPECT_TRUE(CanBePrefix({.rows = 50, .memory = set}, {.rows = 64, .memory = set}, {50}));
  const MemorySet others = {.rows = 63};
  EXPECT_FALSE(CanBePrefix({.rows = 65, .memory = others}, {.rows = 70, .memory = set}, {65}));
}

TEST(AppendEncodeDeathTest, BrokenRequirementsStopTheProcess) {
  BackendDriver driver = BackendDriver::Cpu(1);
  const ModelCase good = Appends();
  const auto model = driver.AddModel(MakeTestModel(good.options));
  const Context prefix = driver.Encode(good.Prefix(200).Encoding(model), 1'000);
  for (const std::vector<int64_t>& starts : std::vector<std::vector<int64_t>>{
           {0}, {200, 200}, {201, 200}, {200, good.context_rows}, {-1, 5}}) {
    ModelCase bad = good;
    bad.append_starts = starts;
    EXPECT_DEATH(driver.NewEncode(bad.Encoding(model)), "append_starts are ascending");
  }
  ModelCase others = good;
  others.append_starts = {199};
  EXPECT_DEATH(driver.NewEncode(others.Encoding(model, prefix)), "the prefix is one of");
  others.append_starts = {};
  EXPECT_DEATH(driver.NewEncode(others.Encoding(model, prefix)), "the prefix is one of");
  const auto same_model = driver.AddModel(MakeTestModel(good.options));
  EXPECT_DEATH(driver.NewEncode(good.Encoding(same_model, prefix)), "of the same model");
  ModelCase reduced = good.Prefix(199);
  reduced.memory = {.rows = 64};
  const Context set = driver.Encode(reduced.Encoding(model), 1'000);
  EXPECT_DEATH(driver.NewEncode(good.Encoding(model, set)), "the prefix is not reduced");
}

}  // namespace
}  // namespace chorale
