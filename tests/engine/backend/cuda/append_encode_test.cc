// The encoding of appended rows as work on the GPU backend: the bytes that it leaves, its steps,
// and its tiles.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/cuda/context_layout.h"
#include "engine/backend/cuda/layer_pass.h"
#include "gtest/gtest.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

using Context = std::shared_ptr<const ResidentContext>;

// All bytes of a context, among them the padding of its last key blocks.
std::string BytesOf(BackendDriver& driver, const PoolRange& kv) {
  const PoolRange host = {.offset = 0, .bytes = kv.bytes};
  const auto copy = driver.backend().NewContextCopy(kv, host, CopyDirection::kToHost);
  driver.Run(copy.get());
  return std::string(driver.backend().HostContextMemory(host), kv.bytes);
}
void SetBytes(BackendDriver& driver, const PoolRange& kv, const std::string& bytes) {
  const PoolRange host = {.offset = 0, .bytes = kv.bytes};
  std::memcpy(driver.backend().HostContextMemory(host), bytes.data(), bytes.size());
  const auto copy = driver.backend().NewContextCopy(kv, host, CopyDirection::kToDevice);
  driver.Run(copy.get());
}

// Appends of one row, of 16, and of more than a key block, from and to all parts of a key block.
ModelCase Appends(const TestModelOptions& options) {
  return {.options = options, .context_rows = 221, .append_starts = {70, 71, 87, 128}};
}

struct Form {
  std::string name;
  TestModelOptions options;
  under_test::Size size = under_test::Size::kSmall;
};

// Each form of the layers and each width of heads; heads of 8 elements are padded to 16.
std::vector<Form> Forms() {
  constexpr int64_t kUnfused = 4'099;  // d_ff
  return {
      {"Fused8", {.row_encoder = "cell_attention"}},
      {"Fused32", {.n_heads = 1, .n_kv_heads = 1, .n_layers = 3}},
      {"Fused64", AllLayersModel(2)},
      {"Fused128", {.d_model = 128, .n_heads = 1, .n_kv_heads = 1}},
      {"Unfused8", {.row_encoder = "cell_attention", .d_ff = kUnfused}, under_test::Size::kLarge},
      {"Unfused32", {.n_heads = 1, .n_kv_heads = 1, .d_ff = kUnfused}},
      {"Unfused64",
       {.d_model = 128, .n_heads = 2, .n_kv_heads = 1, .d_ff = kUnfused},
       under_test::Size::kMedium},
      {"Unfused128",
       {.d_model = 128, .n_heads = 1, .n_kv_heads = 1, .d_ff = kUnfused},
       under_test::Size::kLarge}};
}

class CudaAppendTest : public under_test::BackendTest, public testing::WithParamInterface<Form> {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (!IsSkipped() && under_test::TooLargeForDevice(GetParam().size)) {
      GTEST_SKIP() << "too large for the emulator";
    }
  }
};

// Without a prefix and with each. The memory of the contexts was NaN before, and the prefix stays
// as it was.
TEST_P(CudaAppendTest, TheSameBytesWithEachPrefix) {
  const ModelCase whole = Appends(GetParam().options);
  BackendDriver driver = under_test::NewDriver();
  const auto model = driver.AddModel(MakeTestModel(whole.options));
  constexpr int64_t kAllContexts = 8 << 20;
  SetBytes(driver, {.offset = 0, .bytes = kAllContexts}, std::string(kAllContexts, '\xff'));
  const auto encode = [&](const ModelCase& model_case, const Context& prefix) {
    return driver.Encode(model_case.Encoding(model, prefix), 1'000);
  };
  const std::string expected = BytesOf(driver, encode(whole, nullptr)->kv);
  for (size_t i = 0; i < expected.size(); i += 2) {
    ASSERT_FALSE(expected[i] == '\xff' && expected[i + 1] == '\xff') << i;
  }
  ModelCase at_once = whole;
  at_once.append_starts = {};
  EXPECT_FALSE(BytesOf(driver, encode(at_once, nullptr)->kv) == expected);
  for (const int64_t rows : whole.append_starts) {
    const Context prefix = encode(whole.Prefix(rows), nullptr);
    const std::string before = BytesOf(driver, prefix->kv);
    const Context context = encode(whole, prefix);
    EXPECT_TRUE(BytesOf(driver, context->kv) == expected) << rows;
    EXPECT_TRUE(BytesOf(driver, prefix->kv) == before) << rows;
    EXPECT_EQ(context->encoder_state, prefix->encoder_state);
    ASSERT_LE(context->kv.offset + context->kv.bytes, kAllContexts);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, CudaAppendTest, testing::ValuesIn(Forms()),
                         [](const auto& info) { return info.param.name; });

class CudaAppendStepsTest : public under_test::BackendTest {};

TEST_F(CudaAppendStepsTest, TheRowEncoderIsFittedToTheRowsBeforeTheFirstAppend) {
  const ModelCase whole = Appends({.row_encoder = "cell_attention"});
  BackendDriver driver = under_test::NewDriver();
  const auto model = driver.AddModel(MakeTestModel(whole.options));
  const auto state = [&](const ModelCase& model_case) {
    return driver.Encode(model_case.Encoding(model), 1'000)->encoder_state->Bytes();
  };
  EXPECT_EQ(state(whole), state(whole.Base()));
  ModelCase at_once = whole;
  at_once.append_starts = {};
  EXPECT_NE(state(at_once), state(whole));
}

// A prefix of more rows than a step copies. Nobody has encoded it.
TEST_F(CudaAppendStepsTest, ALargePrefixIsCopiedInSteps) {
  constexpr int64_t kRows = 16'500;
  const ModelCase large = {.options = {.n_heads = 1, .n_kv_heads = 1},
                           .context_rows = kRows + 1,
                           .append_starts = {kRows}};
  BackendDriver driver = under_test::NewDriver();
  const auto model = driver.AddModel(MakeTestModel(large.options));
  ResidentContext prefix = *driver.Encode(ModelCase{.options = large.options}.Encoding(model));
  prefix.shape = {.rows = kRows};
  prefix.kv = driver.TakeContextRange(model->config(), prefix.shape);
  std::vector<uint16_t> bits(prefix.kv.bytes / 2);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(0x3f00 + i % 127);
  const std::string bytes(reinterpret_cast<const char*>(bits.data()), prefix.kv.bytes);
  SetBytes(driver, prefix.kv, bytes);
  const auto work =
      driver.NewEncode(large.Encoding(model, std::make_shared<const ResidentContext>(prefix)));
  int64_t steps = 0;
  for (; !work->done(); ++steps) {
    EXPECT_GT(work->next_step_flops(), 0);
    EXPECT_GE(work->steps_at_this_cost(), 1);
    const Slice slice[] = {{.work = work.get(), .max_steps = 1}};
    ASSERT_TRUE(driver.backend().Advance(slice).ok());
  }
  EXPECT_EQ(steps, large.options.n_layers * (2 + 1));
  const std::string copied = BytesOf(driver, work->TakeContext().kv);
  constexpr int64_t kHeadDim = 32;
  const int64_t whole_blocks =
      kRows / kernels::cuda::kKeyBlockKeys * kernels::cuda::KeyBlockSize(kHeadDim) * 2;
  for (int64_t layer = 0; layer < large.options.n_layers; ++layer) {
    const auto head = [&](const std::string& of, int64_t rows) {
      return of.substr(2 * kernels::cuda::ContextKeyBlockAt(layer, 0, 0, rows, 1, kHeadDim),
                       whole_blocks);
    };
    EXPECT_TRUE(head(copied, kRows + 1) == head(bytes, kRows)) << layer;
  }
}

TEST_F(CudaAppendStepsTest, EachBlockHasItsSteps) {
  const ModelCase whole = Appends({.n_layers = 3});
  BackendDriver driver = under_test::NewDriver();
  const auto model = driver.AddModel(MakeTestModel(whole.options));
  const auto steps_of = [&](const Context& prefix) {
    const auto work = driver.NewEncode(whole.Encoding(model, prefix));
    int64_t steps = 0;
    while (!work->done()) {
      const int64_t announced = work->steps_at_this_cost();
      const Slice slice[] = {{.work = work.get(), .max_steps = announced}};
      EXPECT_TRUE(driver.backend().Advance(slice).ok());
      steps += announced;
    }
    EXPECT_EQ(work->next_step_flops(), 0);
    return steps;
  };
  EXPECT_EQ(steps_of(nullptr), 1 + 3 * 5) << "the fit, then five blocks";
  const Context prefix = driver.Encode(whole.Prefix(87).Encoding(model), 1'000);
  EXPECT_EQ(steps_of(prefix), 3 + 3 * 2) << "the copy, then two blocks";
}

// first_row, encode_first and encode_rows of each tile.
TEST(EncodeTilesTest, BeginAtKeyBlocks) {
  using Fields = std::vector<std::vector<int32_t>>;
  const auto fields = [](int64_t first, int64_t rows) {
    Fields all;
    for (const kernels::cuda::Tile& tile : cuda::TilesOfContextRows(
             {.first = first, .rows = rows}, {.keys = first + rows, .capacity = 900})) {
      EXPECT_EQ(tile.context_rows, first + rows);
      EXPECT_EQ(tile.context_capacity, 900);
      EXPECT_EQ(tile.groups, 4);
      all.push_back({tile.first_row, tile.encode_first, tile.encode_rows});
    }
    return all;
  };
  EXPECT_EQ(fields(0, 130), (Fields{{0, 0, 64}, {64, 0, 64}, {128, 0, 2}}));
  EXPECT_EQ(fields(63, 1), (Fields{{0, 63, 64}}));
  EXPECT_EQ(fields(64, 1), (Fields{{64, 0, 1}}));
  EXPECT_EQ(fields(70, 1), (Fields{{64, 6, 7}}));
  EXPECT_EQ(fields(100, 29), (Fields{{64, 36, 64}, {128, 0, 1}}));
}

TEST(CudaAppendDeathTest, BrokenRequirementsStopTheProcess) {
  EXPECT_DEATH(cuda::TileOf({.keys = 65, .capacity = 64}), "is laid out for its keys");
  if (!under_test::DeviceExists()) GTEST_SKIP() << "there is no GPU";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ModelCase good = Appends({});
  const auto encode = [&](const ModelCase& spec_case, bool other_model, int64_t reduced_rows) {
    BackendDriver driver = under_test::NewDriver();
    const auto model = driver.AddModel(MakeTestModel(good.options));
    ModelCase prefix_case = good.Prefix(reduced_rows > 0 ? 70 : 71);
    prefix_case.memory = {.rows = reduced_rows};
    const Context prefix = driver.Encode(prefix_case.Encoding(model), 1'000);
    const auto of = other_model ? driver.AddModel(MakeTestModel(good.options)) : model;
    driver.NewEncode(spec_case.Encoding(of, prefix));
  };
  ModelCase others = good;
  others.append_starts = {69};
  EXPECT_DEATH(encode(others, false, 0), "the prefix is one of");
  EXPECT_DEATH(encode(good, true, 0), "of the same model");
  EXPECT_DEATH(encode(good, false, 64), "the prefix is not reduced");
  ModelCase reduced = good;
  reduced.memory = {.rows = 64};
  EXPECT_DEATH(encode(reduced, false, 0), "the prefix has as many keys");
}

}  // namespace
}  // namespace chorale
