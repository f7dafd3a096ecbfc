// A call's result depends on nothing but the call: the same bits for any slicing, any company, any
// split of paths into tiles, and however little room there is for a launch.
#include <algorithm>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/backend/cuda/cuda_case.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/path_arrays.h"
#include "tests/engine/backend/work_results.h"

namespace chorale {
namespace {

using Order = LoadedCase::Order;
using Doubles = std::vector<double>;

const ModelCase kCase = {
    .options = {.d_model = 64, .n_heads = 2, .n_kv_heads = 1, .n_layers = 2},
    .context_rows = 270,
    .targets = 4,
    .paths = 18,
};

class CudaDeterminismTest : public CudaTest {
 protected:
  static WorkResults RunAlone(int64_t steps_per_slice, int64_t workspace_bytes = 64 << 20) {
    BackendDriver driver = Driver(workspace_bytes);
    const LoadedCase loaded(kCase, driver, steps_per_slice);
    const auto decode = loaded.DecodeDrawn(0, kCase.paths, Order::kRandom);
    const auto density = loaded.Density(kCase.Values(), Order::kRandom);
    const auto predict = loaded.Predict(0, kCase.targets);
    driver.Run(decode.get(), steps_per_slice);
    driver.Run(density.get(), steps_per_slice);
    driver.Run(predict.get(), steps_per_slice);
    return WorkResults(*decode, *density, *predict, kCase.targets);
  }

  static const WorkResults& Expected() {
    static const auto* const results = new WorkResults(RunAlone(1'000));
    return *results;
  }
};

TEST_F(CudaDeterminismTest, ResultsAreNotTrivial) {
  for (const Doubles* numbers : {&Expected().values, &Expected().decode, &Expected().density}) {
    ASSERT_EQ(numbers->size(), static_cast<size_t>(kCase.paths * kCase.targets));
    EXPECT_NE((*numbers)[0], (*numbers)[1]);
  }
}

TEST_F(CudaDeterminismTest, AnySlicing) {
  for (int64_t steps : {1, 2}) EXPECT_TRUE(RunAlone(steps) == Expected()) << steps;
}

// Room for one tile of a decode, without a second chunk of states.
TEST_F(CudaDeterminismTest, LittleWorkspace) {
  EXPECT_TRUE(RunAlone(1'000, 75 << 10) == Expected());
}

// A step's mixtures are more than values and log-densities of a whole round: the host fetches them
// step by step.
TEST_F(CudaDeterminismTest, MixturesOfManyComponentsStepByStepAndInOnePass) {
  const ModelCase model_case = {.options = {.n_heads = 1, .n_kv_heads = 1, .num_components = 48},
                                .context_rows = 20,
                                .targets = 4,
                                .paths = 32};
  BackendDriver driver = Driver(150 << 10);
  const LoadedCase loaded(model_case, driver);
  const auto decode = loaded.DecodeForced();
  const auto density = loaded.Density(model_case.Values());
  driver.Run(decode.get());
  driver.Run(density.get());
  for (int64_t path = 0; path < model_case.paths; ++path) {
    for (int64_t position = 0; position < model_case.targets; ++position) {
      const MixtureSpan stepped = decode->mixture(path, position);
      const MixtureSpan forced = density->mixture(path, position);
      ASSERT_EQ(stepped.mean, forced.mean) << path << " " << position;
      ASSERT_EQ(stepped.std, forced.std);
      ASSERT_EQ(stepped.log_weight, forced.log_weight);
    }
  }
}

TEST_F(CudaDeterminismTest, AnyCompany) {
  const ModelCase other_case = {
      .options = {.seed = 9}, .context_rows = 333, .targets = 5, .paths = 13};
  BackendDriver driver = Driver();
  const LoadedCase other(other_case, driver);
  const LoadedCase loaded(kCase, driver);
  const auto other_model = driver.AddModel(MakeTestModel(other_case.options));
  const auto encode = driver.NewEncode(other_model, other_case.XContext(), other_case.YContext());
  const auto noise = other.DecodeDrawn(0, 13, Order::kGiven);
  const auto same_model_noise = loaded.DecodeDrawn(3, 7, Order::kGiven);
  const auto decode = loaded.DecodeDrawn(0, kCase.paths, Order::kRandom);
  const auto more_noise = other.Density(other_case.Values());
  const auto density = loaded.Density(kCase.Values(), Order::kRandom);
  const auto predict = loaded.Predict(0, kCase.targets);
  driver.RunAll({encode.get(), noise.get(), same_model_noise.get(), decode.get(), more_noise.get(),
                 density.get(), predict.get()},
                3);
  EXPECT_TRUE(WorkResults(*decode, *density, *predict, kCase.targets) == Expected());
}

TEST_F(CudaDeterminismTest, AnySplitIntoTiles) {
  BackendDriver driver = Driver();
  const LoadedCase loaded(kCase, driver);
  std::vector<std::unique_ptr<DecodeWork>> works;
  std::vector<Work*> pointers;
  int64_t first = 0;
  const std::vector<int64_t> tiles = {1, 8, 9};
  for (int64_t paths : tiles) {
    works.push_back(loaded.DecodeDrawn(first, paths, Order::kRandom));
    pointers.push_back(works.back().get());
    first += paths;
  }
  driver.RunAll(pointers, 2);
  first = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    for (int64_t t = 0; t < kCase.targets; ++t) {
      for (int64_t p = 0; p < tiles[i]; ++p) {
        const int64_t whole = t * kCase.paths + first + p;
        ASSERT_EQ(works[i]->values()[t * tiles[i] + p], Expected().values[whole]) << t << " " << p;
        ASSERT_EQ(works[i]->log_densities()[t * tiles[i] + p], Expected().decode[whole]);
      }
    }
    first += tiles[i];
  }
}

class CudaDensityTest : public CudaTest {};

TEST_F(CudaDensityTest, SeveralTilesAreAsEachByItself) {
  const ModelCase model_case = {
      .options = {.n_layers = 1}, .context_rows = 70, .targets = 3, .paths = 70};
  BackendDriver driver = Driver();
  const LoadedCase loaded(model_case, driver);
  const std::vector<float> values = model_case.Values();
  const auto run = [&](int64_t first, int64_t paths) {
    TileSpec tile = loaded.Tile(first, paths, Order::kRandom);
    tile.keep_mixtures = true;
    auto density = driver.NewDensity(tile, SelectPaths(values, model_case.paths, first, paths));
    driver.Run(density.get(), 2);
    return density;
  };
  const auto together = run(0, model_case.paths);
  for (int64_t first = 0; first < model_case.paths; first += 32) {
    const int64_t paths = std::min<int64_t>(32, model_case.paths - first);
    const auto alone = run(first, paths);
    for (int64_t p = 0; p < paths; ++p) {
      for (int64_t t = 0; t < model_case.targets; ++t) {
        ASSERT_EQ(together->log_densities()[t * model_case.paths + first + p],
                  alone->log_densities()[t * paths + p])
            << first + p << " " << t;
        ASSERT_EQ(together->mixture(first + p, t).mean, alone->mixture(p, t).mean);
      }
    }
  }
}

}  // namespace
}  // namespace chorale
