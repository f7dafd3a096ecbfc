// Densities of more paths than a tile has, and in tiles of whole paths.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/cuda/kernel_shape.h"
#include "engine/backend/cuda/path_buffer.h"
#include "gtest/gtest.h"
#include "kernels/cuda/layout/fragments.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/path_arrays.h"
#include "tests/engine/backend/reference_forward.h"
#include "tests/engine/backend/reference_row_encoder.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

using Order = LoadedCase::Order;

class CudaDensityTest : public under_test::BackendTest {
 protected:
  static void ExpectTilesAsEachByItself(const ModelCase& model_case) {
    BackendDriver driver = under_test::NewDriver();
    const LoadedCase loaded(model_case, driver);
    const std::vector<float> values = model_case.Values();
    const auto run = [&](int64_t first, int64_t paths) {
      TileSpec tile = loaded.Tile(first, paths, Order::kRandom);
      tile.first_mixture = 0;
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
};

TEST_F(CudaDensityTest, SeveralTilesAreAsEachByItself) {
  ExpectTilesAsEachByItself(
      {.options = {.n_layers = 1}, .context_rows = 70, .query_rows = 3, .paths = 70});
}

TEST_F(CudaDensityTest, SoAreTilesOfWholePaths) {
  ExpectTilesAsEachByItself(
      {.options = AllLayersModel(1), .context_rows = 70, .query_rows = 7, .paths = 70});
}

TEST_F(CudaDensityTest, WholePathsAsTheReference) {
  for (const int64_t query_rows : {5, 12, 20}) {
    const ModelCase model_case = {
        .options = AllLayersModel(2), .context_rows = 70, .query_rows = query_rows, .paths = 3};
    const Model model = MakeTestModel(model_case.options);
    const FeatureMatrix x = model_case.XContext();
    const std::vector<float> y = model_case.YContext();
    const reference::KeyValues context = reference::EncodeContext(model, x, y);
    const reference::Rows rows = reference::EncodeRows(model, x, y, model_case.XTarget());
    BackendDriver driver = under_test::NewDriver();
    const LoadedCase loaded(model_case, driver);
    const std::vector<float> values = model_case.Values();
    const std::vector<int32_t> orders = model_case.RandomOrders();
    const std::unique_ptr<DensityWork> density = loaded.Density(values, Order::kRandom);
    driver.Run(density.get());
    const double bound = under_test::ToleratedErrors().mixture;
    for (int64_t p = 0; p < model_case.paths; ++p) {
      const std::vector<int32_t> order(orders.begin() + p * query_rows,
                                       orders.begin() + (p + 1) * query_rows);
      const std::vector<reference::Mixture> expected = reference::TeacherForce(
          model, context, rows, order, SelectPaths(values, model_case.paths, p, 1));
      for (int64_t t = 0; t < query_rows; ++t) {
        ExpectMixtureClose(testing::PrintToString(std::vector<int64_t>{query_rows, p, t}),
                           density->mixture(p, t), expected[t], bound);
        const int64_t at = t * model_case.paths + p;
        EXPECT_NEAR(density->log_densities()[at], reference::LogDensity(expected[t], values[at]),
                    under_test::ToleratedErrors().log_density);
      }
    }
  }
}

TEST(PathPositionsTest, FillAtLeastHalfOfATile) {
  const ModelConfig config = MakeTestModel(AllLayersModel(1)).config;
  kernels::cuda::DeviceProperties device = {.compute_major = kernels::cuda::kWgmmaComputeMajor,
                                            .shared_bytes_per_block = 227 << 10};
  const auto path_positions = [&](int64_t positions) {
    return cuda::PathPositions(cuda::KernelShape(config, device), positions);
  };
  EXPECT_EQ(path_positions(1), 0);
  EXPECT_EQ(path_positions(4), 0);
  EXPECT_EQ(path_positions(5), 8);
  EXPECT_EQ(path_positions(8), 8);
  EXPECT_EQ(path_positions(9), 16);
  EXPECT_EQ(path_positions(17), 32);
  EXPECT_EQ(path_positions(32), 32);
  EXPECT_EQ(path_positions(33), 0);
  device.compute_major = 8;
  EXPECT_EQ(path_positions(32), 0) << "there is no kernel for whole paths";
}

}  // namespace
}  // namespace chorale
