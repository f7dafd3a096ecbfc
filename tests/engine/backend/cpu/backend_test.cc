#include "engine/backend/cpu/backend.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backend/backend_driver.h"
#include "tests/engine/backend/model_case.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using Order = LoadedCase::Order;

TEST(CpuBackendTest, RefusesOptionsThatCannotBe) {
  const auto refused = [](cpu::BackendOptions options, const std::string& field) {
    const absl::Status status = cpu::NewBackend(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  };
  refused({.threads = -1}, "threads");
  refused({.threads = 1'000'000}, "threads");
  refused({.context_pool_bytes = 0}, "context_pool_bytes");
  refused({.buffer_pool_bytes = -5}, "buffer_pool_bytes");
  EXPECT_EQ(cpu::NewBackend({.context_pool_bytes = int64_t{1} << 60}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(CpuBackendTest, DescribesItself) {
  const auto one =
      *cpu::NewBackend({.threads = 1, .context_pool_bytes = 1 << 20, .buffer_pool_bytes = 1 << 19});
  EXPECT_THAT(one->description(), StartsWith("cpu "));
  EXPECT_THAT(one->description(), HasSubstr(", 1 thread"));
  EXPECT_EQ(one->context_pool_bytes(), 1 << 20);
  EXPECT_EQ(one->buffer_pool_bytes(), 1 << 19);
  EXPECT_EQ(one->tile_paths(), 32);
  EXPECT_THAT((*cpu::NewBackend({}))->description(), HasSubstr("thread"));
}

TEST(CpuBackendTest, CountsBytesExactly) {
  const auto backend = *cpu::NewBackend({});
  const ModelConfig config =
      MakeTestModel({.d_model = 64, .n_heads = 4, .n_kv_heads = 2, .n_layers = 3}).config;
  // L * (Hkv * (17 keys padded to 32, and 17 values) * Dh) * 4 bytes.
  EXPECT_EQ(backend->ContextBytes(config, {.rows = 17}), 3 * 2 * (32 + 17) * 16 * 4);
  // A set as large as the table is no set. One of 15 keys: L * (Hkv * (16 keys and 15 values) * Dh,
  // and 2 * 15 weights, padded to 32) * 4 bytes.
  EXPECT_EQ(backend->ContextBytes(config, {.rows = 17, .memory = {.rows = 17}}),
            backend->ContextBytes(config, {.rows = 17}));
  EXPECT_EQ(backend->ContextBytes(config, {.rows = 1'000'000, .memory = {.rows = 15}}),
            3 * (2 * (16 + 15) * 16 + 32) * 4);
  // L * paths * (Hkv * (16 keys and 16 values) * Dh) * 4 bytes: the last position needs none.
  EXPECT_EQ(backend->BufferBytes(config, 17, 5), 3 * 5 * 2 * (16 + 16) * 16 * 4);
  EXPECT_EQ(backend->BufferBytes(config, 18, 5), 3 * 5 * 2 * (32 + 32) * 16 * 4);
  EXPECT_EQ(backend->BufferBytes(config, 1, 5), 64);  // nothing to hold: one unit of alignment
  // paths * (2T tokens of D, two layers of (Hkv * (16 keys and 16 values) * Dh)) * 4 bytes.
  EXPECT_EQ(backend->DensityBytes(config, 17, 5), 5 * (2 * 17 * 64 + 2 * 2 * (16 + 16) * 16) * 4);
  EXPECT_EQ(backend->DensityBytes(config, 1, 5), 5 * 2 * 64 * 4);
  for (int64_t n : {1, 2, 15, 16, 17, 1000}) {
    EXPECT_EQ(backend->ContextBytes(config, {.rows = n}) % 64, 0);
    EXPECT_EQ(backend->ContextBytes(config, {.rows = n + 1, .memory = {.rows = n}}) % 64, 0);
    EXPECT_EQ(backend->BufferBytes(config, n, 7) % 64, 0);
    EXPECT_EQ(backend->DensityBytes(config, n, 7) % 64, 0);
  }
}

// The paths of a tile share what a density keeps, so that long ones need no more than one of them.
TEST(CpuBackendTest, ADensityKeepsAFewPathsAtATime) {
  const auto backend = *cpu::NewBackend({});
  const ModelConfig config =
      MakeTestModel({.d_model = 512, .n_heads = 8, .n_kv_heads = 8, .n_layers = 12}).config;
  EXPECT_EQ(backend->DensityBytes(config, 4'096, 32), backend->DensityBytes(config, 4'096, 1));
  for (int64_t query_rows : {1, 10, 32, 100, 1'024, 4'096}) {
    // A row takes a token and, of two layers, half a K and half a V; padding comes on top.
    const int64_t rows = std::max<int64_t>(2 * query_rows, 2'048);
    const int64_t bytes = rows * (1 + 2 * (1 + 1) / 2) * 512 * 4;
    EXPECT_LE(backend->DensityBytes(config, query_rows, 32), bytes + bytes / 20) << query_rows;
  }
}

// Work takes exactly the steps of its slice, and results of earlier steps stay readable.
TEST(CpuBackendTest, AdvancesByAtMostTheStepsOfTheSlice) {
  const ModelCase model_case = {.query_rows = 10, .paths = 6};
  BackendDriver driver = BackendDriver::Cpu(2);
  const LoadedCase loaded(model_case, driver);
  const auto decode = loaded.DecodeDrawn(0, 6, Order::kGiven);
  const auto density = loaded.Density(model_case.Values());
  EXPECT_EQ(decode->steps_done(), 0);
  const Slice slices[] = {{.work = decode.get(), .max_steps = 3},
                          {.work = density.get(), .max_steps = 2}};
  EXPECT_EQ(density->steps_at_this_cost(), 2);  // 119 rows in chunks of 64: one phase
  ASSERT_TRUE(driver.backend().Advance(slices).ok());
  EXPECT_EQ(decode->steps_done(), 3);
  EXPECT_EQ(decode->steps_at_this_cost(), 7);
  EXPECT_EQ(density->steps_at_this_cost(), 2);  // the next one
  EXPECT_FALSE(decode->done());
  EXPECT_FALSE(density->done());
  const std::vector<float> first(decode->values().begin(), decode->values().begin() + 3 * 6);
  const Slice rest[] = {{.work = decode.get(), .max_steps = 100}};
  ASSERT_TRUE(driver.backend().Advance(rest).ok());
  EXPECT_EQ(decode->steps_done(), 10);
  EXPECT_TRUE(decode->done());
  EXPECT_EQ(decode->next_step_flops(), 0);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), decode->values().begin()));
  EXPECT_EQ(density->steps_at_this_cost(), 2);
  EXPECT_TRUE(driver.backend().Advance({}).ok());
  EXPECT_TRUE(driver.backend().Advance(rest).ok());  // work that is done is left alone
  EXPECT_EQ(decode->steps_done(), 10);
}

struct StepCount {
  int64_t steps = 0;
  double flops = 0;  // of all of them, as announced
};

// Takes the work step by step to its end. None of the steps that were ever said to cost about the
// same costs more.
StepCount CountSteps(Backend& backend, Work* work) {
  std::vector<double> flops;
  std::vector<int64_t> announced;
  while (!work->done()) {
    flops.push_back(work->next_step_flops());
    announced.push_back(work->steps_at_this_cost());
    EXPECT_GT(flops.back(), 0);
    EXPECT_GE(announced.back(), 1);
    const Slice slice[] = {{.work = work, .max_steps = 1}};
    EXPECT_TRUE(backend.Advance(slice).ok());
  }
  EXPECT_EQ(work->steps_at_this_cost(), 0);
  EXPECT_EQ(work->next_step_flops(), 0);
  for (size_t step = 0; step < flops.size(); ++step) {
    EXPECT_LE(step + announced[step], flops.size());
    for (size_t later = step; later < std::min(step + announced[step], flops.size()); ++later) {
      EXPECT_LE(flops[later], flops[step]) << step << " announced " << later;
    }
  }
  return {static_cast<int64_t>(flops.size()), std::accumulate(flops.begin(), flops.end(), 0.0)};
}

// Takes all steps in slices as long as possible. Returns the sum of the costs that were announced.
double FlopsOfSlices(Backend& backend, Work* work) {
  double flops = 0;
  while (!work->done()) {
    const int64_t steps = work->steps_at_this_cost();
    flops += work->next_flops(steps);
    const Slice slice[] = {{.work = work, .max_steps = steps}};
    EXPECT_TRUE(backend.Advance(slice).ok());
  }
  return flops;
}

// The last step of each phase has fewer rows than the others: a step of an encoding has 384 rows on
// six threads, a step of query rows 256, and a step of other work 64.
TEST(CpuBackendTest, SlicesCostWhatTheirStepsCost) {
  BackendDriver driver = BackendDriver::Cpu(6);
  const ModelCase model_case = {.options = {.n_layers = 3}, .query_rows = 100, .paths = 12};
  const LoadedCase loaded(model_case, driver);
  const auto model = driver.AddModel(MakeTestModel({.n_layers = 3}));
  const auto encode = [&] {
    return driver.NewEncode(model, MakeFeatures(1'000, 2, 1), MakeValues(1'000, 2));
  };
  const auto rows = [&] { return driver.NewRows(loaded.context(), MakeFeatures(300, 3, 1)); };
  const auto density = [&] { return loaded.Density(model_case.Values()); };
  const auto predict = [&] { return loaded.Predict(0, 100); };
  const auto expect_equal = [&](const auto& new_work) {
    const auto in_steps = new_work();
    const auto in_slices = new_work();
    const double flops = CountSteps(driver.backend(), in_steps.get()).flops;
    EXPECT_NEAR(FlopsOfSlices(driver.backend(), in_slices.get()) / flops, 1, 1e-9);
  };
  expect_equal(encode);
  expect_equal(rows);
  expect_equal(density);
  expect_equal(predict);
}

// A context of this size takes many steps, each bounded.
TEST(CpuBackendTest, EncodesInBoundedSteps) {
  BackendDriver driver = BackendDriver::Cpu(1);
  const auto model = driver.AddModel(MakeTestModel({.n_layers = 3}));
  const auto work = driver.NewEncode(model, MakeFeatures(200, 2, 1), MakeValues(200, 2));
  // Fit, then three layers of four chunks of 64 rows.
  EXPECT_EQ(CountSteps(driver.backend(), work.get()).steps, 1 + 3 * 4);
  EXPECT_EQ(work->TakeContext().shape.rows, 200);
}

// A step is a chunk of one layer, in a long path as in many short ones.
TEST(CpuBackendTest, DensityAndPredictionTakeBoundedSteps) {
  BackendDriver driver = BackendDriver::Cpu(2);
  const ModelCase model_case = {.options = {.n_layers = 3}, .query_rows = 100, .paths = 12};
  const LoadedCase loaded(model_case, driver);
  const auto density = loaded.Density(model_case.Values());
  const StepCount count = CountSteps(driver.backend(), density.get());
  // 10 paths of 200 rows together, then 2: the rows of three layers and the head, in chunks of 64.
  EXPECT_EQ(count.steps, (3 + 1) * (32 + 7));
  const auto predict = loaded.Predict(0, 100);
  EXPECT_EQ(CountSteps(driver.backend(), predict.get()).steps, 3 * 2);

  // In all, the density costs what the same values cost step by step.
  const auto decode = loaded.DecodeForced();
  double flops = 0;
  while (!decode->done()) {
    flops += decode->next_step_flops();
    driver.backend().Advance({{{.work = decode.get(), .max_steps = 1}}}).IgnoreError();
  }
  EXPECT_NEAR(count.flops / flops, 1, 0.02);
}

// With a large context a step takes fewer rows.
TEST(CpuBackendTest, StepsAreSmallerOnALargeContext) {
  BackendDriver driver = BackendDriver::Cpu(2);
  const ModelCase model_case = {.options = {.d_model = 16, .n_heads = 1, .n_kv_heads = 1},
                                .context_rows = 8'193,
                                .query_rows = 20,
                                .paths = 1};
  const LoadedCase loaded(model_case, driver, 1'000);
  const auto density = loaded.Density(model_case.Values());
  EXPECT_EQ(CountSteps(driver.backend(), density.get()).steps, (2 + 1) * 3);  // of 39 rows
  const auto predict = loaded.Predict(0, 20);
  EXPECT_EQ(CountSteps(driver.backend(), predict.get()).steps, 2 * 2);
}

// So do many query rows, and the encodings are those of one big step.
TEST(CpuBackendTest, EncodesTargetsInBoundedSteps) {
  BackendDriver driver = BackendDriver::Cpu(2);
  const LoadedCase loaded({}, driver);
  const FeatureMatrix query_rows = MakeFeatures(1'000, 3, 5);
  const auto whole = driver.NewRows(loaded.context(), query_rows);
  const auto stepwise = driver.NewRows(loaded.context(), query_rows);
  driver.Run(whole.get());
  int64_t steps = 0;
  for (; !stepwise->done(); ++steps) {
    const Slice slice[] = {{.work = stepwise.get(), .max_steps = 1}};
    ASSERT_TRUE(driver.backend().Advance(slice).ok());
  }
  EXPECT_EQ(steps, 4);
  const auto predict = [&](std::shared_ptr<const EncodedRows> rows) {
    PredictSpec spec;
    spec.context = loaded.context();
    spec.query_rows = std::move(rows);
    spec.rows = 1'000;
    auto work = driver.backend().NewPredict(std::move(spec));
    driver.Run(work.get());
    return work;
  };
  const auto expected = predict(whole->TakeRows());
  const auto found = predict(stepwise->TakeRows());
  for (int64_t row = 0; row < 1'000; ++row) {
    ASSERT_EQ(found->mixture(row).mean, expected->mixture(row).mean) << row;
  }
}

// What a released range held cannot be read again; a new tenant of it computes the same as ever.
TEST(CpuBackendTest, ReleasedMemoryIsClearedAndUsable) {
  const ModelCase model_case = {.query_rows = 20};
  BackendDriver driver = BackendDriver::Cpu(1);
  Backend& backend = driver.backend();
  const LoadedCase loaded(model_case, driver);
  DecodeSpec spec;
  spec.tile = loaded.Tile();
  spec.seed = 3;
  spec.path_numbers.resize(model_case.paths);
  spec.buffer = driver.TakeBufferRange(
      backend.BufferBytes(loaded.context()->model->config(), 20, model_case.paths));
  const auto run = [&] {
    const auto work = backend.NewDecode(spec);
    driver.Run(work.get());
    return std::vector<float>(work->values().begin(), work->values().end());
  };
  const std::vector<float> values = run();
  backend.ReleaseBuffer(spec.buffer);
  EXPECT_EQ(run(), values);
  EXPECT_EQ(run(), values);  // over what the run before left there
}

TEST(CpuBackendTest, FlopsGrowWithContextAndBuffer) {
  BackendDriver driver = BackendDriver::Cpu(1);
  const LoadedCase small({.context_rows = 10}, driver);
  const LoadedCase large({.context_rows = 1'000}, driver);
  const auto second_phase_flops = [&](const LoadedCase& loaded) {
    const auto work = loaded.Density(ModelCase().Values());
    const Slice slice[] = {{.work = work.get(), .max_steps = work->steps_at_this_cost()}};
    EXPECT_TRUE(driver.backend().Advance(slice).ok());
    return work->next_step_flops();
  };
  EXPECT_LT(second_phase_flops(small), second_phase_flops(large));
  const auto decode = small.DecodeDrawn(0, 5, Order::kGiven);
  double last = decode->next_step_flops();
  for (int64_t step = 0; step + 1 < ModelCase().query_rows; ++step) {
    const Slice slice[] = {{.work = decode.get(), .max_steps = 1}};
    ASSERT_TRUE(driver.backend().Advance(slice).ok());
    EXPECT_GT(decode->next_step_flops(), last);
    last = decode->next_step_flops();
  }
}

// The requirements that all backends share.
TEST(CpuBackendDeathTest, PositionsAndForcedValuesAreAsRequired) {
  BackendDriver driver = BackendDriver::Cpu(1);
  const ModelCase model_case = {.query_rows = 4, .paths = 3};
  const LoadedCase loaded(model_case, driver);
  const std::vector<float> too_many(5 * 3);
  EXPECT_DEATH(driver.NewDecode(loaded.Tile(), 0, 0, {1, 2}), "forced_values is");
  EXPECT_DEATH(driver.NewDecode(loaded.Tile(), 0, 0, {1, 2, 3, 4}), "forced_values is");
  EXPECT_DEATH(driver.NewDecode(loaded.Tile(), 0, 0, too_many), "forced_values is");
  const auto expect_broken = [&](const std::vector<int32_t>& order, const char* requirement) {
    TileSpec tile = loaded.Tile();
    tile.order = order;
    EXPECT_DEATH(driver.NewDecode(tile, 0, 0, {}), requirement);
    EXPECT_DEATH(driver.NewDensity(tile, too_many), requirement);
  };
  expect_broken({0, 1, 2, 3}, "order is");
  expect_broken({0, 4, 2}, "order consists of query rows");
  expect_broken({0, -1, 2}, "order consists of query rows");
  TileSpec no_paths = loaded.Tile();
  no_paths.paths = 0;
  EXPECT_DEATH(driver.backend().NewDecode({.tile = no_paths}), "a tile has paths");
  EXPECT_DEATH(driver.backend().NewDensity({.tile = no_paths}), "a tile has paths");
}

TEST(CpuBackendDeathTest, BrokenRequirementsStopTheProcess) {
  BackendDriver driver = BackendDriver::Cpu(1);
  const LoadedCase loaded({}, driver);
  TileSpec tile = loaded.Tile();
  tile.paths = 33;
  EXPECT_DEATH(driver.NewDecode(tile, 0, 0, {}), "at most tile_paths");
  EXPECT_DEATH(loaded.Density({1.0f}), "values is");
  EXPECT_DEATH(loaded.Predict(0, 1'000), "query rows");
  const auto unfinished = loaded.Predict(0, 3);
  EXPECT_DEATH(unfinished->mixture(0), "the rows are done");
  DensitySpec small;
  small.tile = loaded.Tile();
  small.values = loaded.model_case().Values();
  EXPECT_DEATH(driver.backend().NewDensity(small), "the buffer range holds");
}

}  // namespace
}  // namespace chorale
