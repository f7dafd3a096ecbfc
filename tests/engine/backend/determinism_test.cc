// A call's result depends on nothing but the call: the same bits for any number of threads, any
// slicing, any company in the same Advance, and any split of paths into tiles.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/backend/backend_driver.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/work_results.h"

namespace chorale {
namespace {

using Order = LoadedCase::Order;

const ModelCase kCase = {
    .options = {.d_model = 64, .n_heads = 4, .n_kv_heads = 2, .n_layers = 3},
    .context_rows = 150,
    .targets = 19,
    .paths = 32,
};

using Doubles = std::vector<double>;

WorkResults RunAlone(int threads, int64_t steps_per_slice) {
  BackendDriver driver = BackendDriver::Cpu(threads);
  const LoadedCase loaded(kCase, driver, steps_per_slice);
  const auto decode = loaded.DecodeDrawn(0, kCase.paths, Order::kRandom);
  const auto density = loaded.Density(kCase.Values(), Order::kRandom);
  const auto predict = loaded.Predict(0, kCase.targets);
  driver.Run(decode.get(), steps_per_slice);
  driver.Run(density.get(), steps_per_slice);
  driver.Run(predict.get(), steps_per_slice);
  return WorkResults(*decode, *density, *predict, kCase.targets);
}

const WorkResults& Expected() {
  static const WorkResults* const results = new WorkResults(RunAlone(1, 1'000));
  return *results;
}

TEST(DeterminismTest, ResultsAreNotTrivial) {
  for (const Doubles* numbers : {&Expected().values, &Expected().decode, &Expected().density}) {
    ASSERT_EQ(numbers->size(), static_cast<size_t>(kCase.paths * kCase.targets));
    EXPECT_NE((*numbers)[0], (*numbers)[1]);
  }
}

TEST(DeterminismTest, AnyNumberOfThreads) {
  for (int threads : {2, 3, 5}) EXPECT_TRUE(RunAlone(threads, 1'000) == Expected()) << threads;
}

TEST(DeterminismTest, AnySlicing) {
  for (int64_t steps : {1, 2, 7}) {
    EXPECT_TRUE(RunAlone(1, steps) == Expected()) << steps;
    EXPECT_TRUE(RunAlone(2, steps) == Expected()) << steps;
  }
}

// One path at a time in a group, many, groups that do not fill, one layer, no buffer at all, and
// the smaller steps of a large context.
TEST(DeterminismTest, DensityAtOnceAndStepByStep) {
  const TestModelOptions grouped = {.n_kv_heads = 1, .n_layers = 3};
  const std::vector<ModelCase> cases = {{.options = grouped, .targets = 1, .paths = 32},
                                        {.options = {.n_layers = 1}, .targets = 33, .paths = 32},
                                        {.options = grouped, .targets = 100, .paths = 32},
                                        {.options = grouped, .targets = 1'030, .paths = 2},
                                        {.options = {.d_model = 16, .n_heads = 1, .n_kv_heads = 1},
                                         .context_rows = 8'193,
                                         .targets = 20,
                                         .paths = 3}};
  for (const ModelCase& model_case : cases) {
    const auto run = [&](int threads, int64_t steps_per_slice) {
      BackendDriver driver = BackendDriver::Cpu(threads);
      const LoadedCase loaded(model_case, driver, 1'000);
      const auto work = loaded.Density(model_case.Values(), Order::kRandom);
      driver.Run(work.get(), steps_per_slice);
      return Doubles(work->log_densities().begin(), work->log_densities().end());
    };
    const Doubles at_once = run(1, 1 << 20);
    for (const double number : at_once) ASSERT_TRUE(std::isfinite(number));
    EXPECT_TRUE(run(1, 1) == at_once) << model_case.targets;
    EXPECT_TRUE(run(3, 1) == at_once) << model_case.targets;
    EXPECT_TRUE(run(3, 5) == at_once) << model_case.targets;
  }
}

// All kinds of work at once, with another model's on top.
TEST(DeterminismTest, AnyCompany) {
  ModelCase other_case = {.options = {.seed = 9}, .context_rows = 333, .targets = 40, .paths = 13};
  for (int threads : {1, 2, 3}) {
    BackendDriver driver = BackendDriver::Cpu(threads);
    const LoadedCase other(other_case, driver);
    const LoadedCase loaded(kCase, driver);
    const auto other_model = driver.AddModel(MakeTestModel(other_case.options));
    const auto encode = driver.NewEncode(other_model, other_case.XContext(), other_case.YContext());
    const auto noise = other.DecodeDrawn(0, 13, Order::kGiven);
    const auto decode = loaded.DecodeDrawn(0, kCase.paths, Order::kRandom);
    const auto more_noise = other.Density(other_case.Values());
    const auto density = loaded.Density(kCase.Values(), Order::kRandom);
    const auto predict = loaded.Predict(0, kCase.targets);
    driver.RunAll(
        {encode.get(), noise.get(), decode.get(), more_noise.get(), density.get(), predict.get()},
        3);
    EXPECT_TRUE(WorkResults(*decode, *density, *predict, kCase.targets) == Expected()) << threads;
  }
}

// Paths keep their numbers in the session, so every tile draws what the whole would have drawn.
TEST(DeterminismTest, AnySplitIntoTiles) {
  for (const std::vector<int64_t>& tiles :
       {std::vector<int64_t>{1, 31}, {16, 16}, {5, 7, 20}, std::vector<int64_t>(32, 1)}) {
    BackendDriver driver = BackendDriver::Cpu(2);
    const LoadedCase loaded(kCase, driver);
    std::vector<std::unique_ptr<DecodeWork>> works;
    std::vector<Work*> pointers;
    int64_t first = 0;
    for (int64_t paths : tiles) {
      works.push_back(loaded.DecodeDrawn(first, paths, Order::kRandom));
      pointers.push_back(works.back().get());
      first += paths;
    }
    ASSERT_EQ(first, kCase.paths);
    driver.RunAll(pointers, 4);
    first = 0;
    for (const std::unique_ptr<DecodeWork>& work : works) {
      const int64_t paths = static_cast<int64_t>(work->values().size()) / kCase.targets;
      for (int64_t t = 0; t < kCase.targets; ++t) {
        for (int64_t p = 0; p < paths; ++p) {
          const int64_t whole = t * kCase.paths + first + p;
          ASSERT_EQ(work->values()[t * paths + p], Expected().values[whole]) << t << " " << p;
          ASSERT_EQ(work->log_densities()[t * paths + p], Expected().decode[whole]);
        }
      }
      first += paths;
    }
  }
}

TEST(DeterminismTest, PredictionsDoNotDependOnTheirChunk) {
  ModelCase many = kCase;
  many.targets = 150;
  BackendDriver driver = BackendDriver::Cpu(2);
  const LoadedCase loaded(many, driver);
  const auto all = loaded.Predict(0, 150);
  const auto part = loaded.Predict(70, 75);
  driver.RunAll({all.get(), part.get()}, 1);
  for (int64_t row = 0; row < 75; ++row) {
    EXPECT_EQ(part->mixture(row).mean, all->mixture(70 + row).mean);
    EXPECT_EQ(part->mixture(row).log_weight, all->mixture(70 + row).log_weight);
  }
}

}  // namespace
}  // namespace chorale
