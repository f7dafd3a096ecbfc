// Densities of more paths than a tile has.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/path_arrays.h"

namespace chorale {
namespace {

using CudaDensityTest = under_test::BackendTest;

TEST_F(CudaDensityTest, SeveralTilesAreAsEachByItself) {
  const ModelCase model_case = {
      .options = {.n_layers = 1}, .context_rows = 70, .query_rows = 3, .paths = 70};
  BackendDriver driver = under_test::NewDriver();
  const LoadedCase loaded(model_case, driver);
  const std::vector<float> values = model_case.Values();
  const auto run = [&](int64_t first, int64_t paths) {
    TileSpec tile = loaded.Tile(first, paths, LoadedCase::Order::kRandom);
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
      for (int64_t t = 0; t < model_case.query_rows; ++t) {
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
