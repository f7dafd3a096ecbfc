#include "engine/backends/cpu_backend.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/layout.h"
#include "tests/engine/backends/backend_driver.h"
#include "tests/engine/backends/model_case.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using Order = LoadedCase::Order;

TEST(CpuBackendTest, RefusesOptionsThatCannotBe) {
  const auto refused = [](CpuBackendOptions options, const std::string& field) {
    const absl::Status status = NewCpuBackend(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  };
  refused({.threads = -1}, "threads");
  refused({.threads = 1'000'000}, "threads");
  refused({.context_pool_bytes = 0}, "context_pool_bytes");
  refused({.buffer_pool_bytes = -5}, "buffer_pool_bytes");
  EXPECT_EQ(NewCpuBackend({.context_pool_bytes = int64_t{1} << 60}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(CpuBackendTest, DescribesItself) {
  const auto one =
      *NewCpuBackend({.threads = 1, .context_pool_bytes = 1 << 20, .buffer_pool_bytes = 1 << 19});
  EXPECT_THAT(one->description(), StartsWith("cpu "));
  EXPECT_THAT(one->description(), HasSubstr(", 1 thread"));
  EXPECT_EQ(one->context_pool_bytes(), 1 << 20);
  EXPECT_EQ(one->buffer_pool_bytes(), 1 << 19);
  EXPECT_EQ(one->tile_paths(), 32);
  EXPECT_THAT((*NewCpuBackend({}))->description(), HasSubstr("thread"));
}

TEST(CpuBackendTest, CountsBytesExactly) {
  const auto backend = *NewCpuBackend({});
  const ModelConfig config =
      MakeTestModel({.d_model = 64, .n_heads = 4, .n_kv_heads = 2, .n_layers = 3}).config;
  // L * (Hkv * (17 keys padded to 32, and 17 values) * Dh) * 4 bytes.
  EXPECT_EQ(backend->ContextBytes(config, 17), 3 * 2 * (32 + 17) * 16 * 4);
  // L * paths * (Hkv * (16 keys and 16 values) * Dh) * 4 bytes: the last value needs no place.
  EXPECT_EQ(backend->BufferBytes(config, 17, 5), 3 * 5 * 2 * (16 + 16) * 16 * 4);
  EXPECT_EQ(backend->BufferBytes(config, 18, 5), 3 * 5 * 2 * (32 + 32) * 16 * 4);
  EXPECT_EQ(backend->BufferBytes(config, 1, 5), 64);  // nothing to hold: one unit of alignment
  for (int64_t n : {1, 2, 15, 16, 17, 1000}) {
    EXPECT_EQ(backend->ContextBytes(config, n) % 64, 0);
    EXPECT_EQ(backend->BufferBytes(config, n, 7) % 64, 0);
  }
}

TEST(CpuBackendTest, RefusesUnknownRowEncoders) {
  BackendDriver driver = BackendDriver::Cpu(1);
  Model model = MakeTestModel();
  model.config.row_encoder = "magic";
  const absl::Status status = driver.backend().AddModel(model).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("known: feature_mean"));
}

// Work does exactly the steps it was given, and what was done stays readable.
TEST(CpuBackendTest, AdvancesByAtMostTheStepsGiven) {
  const ModelCase model_case = {.targets = 10, .paths = 6};
  BackendDriver driver = BackendDriver::Cpu(2);
  const LoadedCase loaded(model_case, driver);
  const auto decode = loaded.DecodeDrawn(0, 6, Order::kGiven);
  const auto density = loaded.Density(model_case.Values());
  EXPECT_EQ(decode->steps_done(), 0);
  const Slice slices[] = {{.work = decode.get(), .max_steps = 3},
                          {.work = density.get(), .max_steps = 2}};
  ASSERT_TRUE(driver.backend().Advance(slices).ok());
  EXPECT_EQ(decode->steps_done(), 3);
  EXPECT_EQ(density->paths_done(), 2);
  EXPECT_FALSE(decode->done());
  const std::vector<float> first(decode->values().begin(), decode->values().begin() + 3 * 6);
  const Slice rest[] = {{.work = decode.get(), .max_steps = 100}};
  ASSERT_TRUE(driver.backend().Advance(rest).ok());
  EXPECT_EQ(decode->steps_done(), 10);
  EXPECT_TRUE(decode->done());
  EXPECT_EQ(decode->next_step_flops(), 0);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), decode->values().begin()));
  EXPECT_EQ(density->paths_done(), 2);
  EXPECT_TRUE(driver.backend().Advance({}).ok());
  EXPECT_TRUE(driver.backend().Advance(rest).ok());  // work that is done is left alone
  EXPECT_EQ(decode->steps_done(), 10);
}

// A context of this size takes many steps, each bounded.
TEST(CpuBackendTest, EncodesInBoundedSteps) {
  BackendDriver driver = BackendDriver::Cpu(1);
  const auto model = driver.AddModel(MakeTestModel({.n_layers = 3}));
  const auto work = driver.backend().NewEncode(model, MakeFeatures(200, 2, 1), MakeValues(200, 2),
                                               driver.TakeContextRange(model->config(), 200));
  int64_t steps = 0;
  int64_t announced = 0;  // steps left of those that were said to cost no more than `flops`
  double flops = 0;
  while (!work->done()) {
    EXPECT_GT(work->next_step_flops(), 0);
    if (announced == 0) {
      announced = work->steps_at_this_cost();
      flops = work->next_step_flops();
      ASSERT_GE(announced, 1);
    }
    EXPECT_LE(work->next_step_flops(), flops) << "step " << steps;
    const Slice slice[] = {{.work = work.get(), .max_steps = 1}};
    ASSERT_TRUE(driver.backend().Advance(slice).ok());
    ++steps;
    --announced;
  }
  EXPECT_EQ(announced, 0);
  EXPECT_EQ(work->steps_at_this_cost(), 0);
  EXPECT_EQ(steps, 1 + 3 * 4);  // fit, then three layers of four chunks of 64 rows
  EXPECT_EQ(work->TakeContext().rows, 200);
}

// So do many targets, and the encodings are those of one big step.
TEST(CpuBackendTest, EncodesTargetsInBoundedSteps) {
  BackendDriver driver = BackendDriver::Cpu(2);
  const LoadedCase loaded({}, driver);
  const FeatureMatrix targets = MakeFeatures(1'000, 3, 5);
  const auto whole = driver.backend().NewRows(loaded.context(), targets);
  const auto stepwise = driver.backend().NewRows(loaded.context(), targets);
  driver.Run(whole.get());
  int64_t steps = 0;
  for (; !stepwise->done(); ++steps) {
    const Slice slice[] = {{.work = stepwise.get(), .max_steps = 1}};
    ASSERT_TRUE(driver.backend().Advance(slice).ok());
  }
  EXPECT_EQ(steps, 4);
  const auto predict = [&](std::shared_ptr<const EncodedRows> rows) {
    PredictSpec spec = {.context = loaded.context(), .targets = std::move(rows), .rows = 1'000};
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
  const ModelCase model_case = {.targets = 20};
  BackendDriver driver = BackendDriver::Cpu(1);
  Backend& backend = driver.backend();
  const LoadedCase loaded(model_case, driver);
  DecodeSpec spec;
  spec.tile = loaded.Tile();
  spec.seed = 3;
  spec.buffer = driver.TakeBufferRange(loaded.context()->model->config(), 20, model_case.paths);
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
  EXPECT_LT(small.Density(ModelCase().Values())->next_step_flops(),
            large.Density(ModelCase().Values())->next_step_flops());
  const auto decode = small.DecodeDrawn(0, 5, Order::kGiven);
  double last = decode->next_step_flops();
  for (int64_t step = 0; step + 1 < ModelCase().targets; ++step) {
    const Slice slice[] = {{.work = decode.get(), .max_steps = 1}};
    ASSERT_TRUE(driver.backend().Advance(slice).ok());
    EXPECT_GT(decode->next_step_flops(), last);
    last = decode->next_step_flops();
  }
}

TEST(CpuBackendDeathTest, BrokenRequirementsStopTheProcess) {
  BackendDriver driver = BackendDriver::Cpu(1);
  const LoadedCase loaded({}, driver);
  TileSpec tile = loaded.Tile();
  tile.paths = 33;
  EXPECT_DEATH(driver.NewDecode(tile, 0, 0, {}), "1 to tile_paths");
  EXPECT_DEATH(driver.NewDecode(loaded.Tile(), 0, 0, {1.0f}), "given is");
  EXPECT_DEATH(loaded.Density({1.0f}), "values is");
  EXPECT_DEATH(loaded.Predict(0, 1'000), "target rows");
  const auto unfinished = loaded.Predict(0, 3);
  EXPECT_DEATH(unfinished->mixture(0), "the row is done");
}

}  // namespace
}  // namespace chorale
