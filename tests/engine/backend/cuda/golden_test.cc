// The golden models through the GPU backend, against the float64 numbers of another implementation.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/cuda/cuda_case.h"
#include "tests/engine/backend/cuda/golden_bounds.h"
#include "tests/engine/backend/golden_case.h"
#include "tests/engine/backend/path_arrays.h"

namespace chorale {
namespace {

class CudaGoldenTest : public CudaTest, public testing::WithParamInterface<GoldenBounds> {
 protected:
  static void Compare(const GoldenCase& golden, const std::string& name,
                      const std::vector<double>& actual, double bound) {
    const std::vector<double> expected = golden.Expected(name);
    const Worst worst =
        ExpectClose(name, absl::MakeConstSpan(actual), absl::MakeConstSpan(expected), bound);
    std::cout << GetParam().model << " " << name << ": worst absolute error " << worst << "\n";
  }
};

TEST_P(CudaGoldenTest, PredictionsDensitiesAndDecode) {
  // The emulator takes minutes for twelve layers.
  if (kernels::cuda::LinkedDevice() == kernels::cuda::DeviceKind::kEmulator &&
      GetParam().model != "golden_tiny") {
    GTEST_SKIP() << "too large for the emulator";
  }
  const GoldenCase golden(GetParam().model);
  const GoldenBounds& bounds = GetParam();
  BackendDriver driver = Driver();
  const auto context =
      driver.Encode(driver.AddModel(golden.model()), golden.x_context(), golden.y_context());
  const auto rows = driver.EncodeRows(context, golden.x_target());

  const std::unique_ptr<PredictWork> predict =
      driver.NewPredict(context, rows, 0, golden.targets());
  driver.Run(predict.get());
  MixtureLists points;
  for (int64_t row = 0; row < golden.targets(); ++row) points.Add(predict->mixture(row));
  Compare(golden, "point_mean", points.mean, bounds.mean);
  Compare(golden, "point_std", points.std, bounds.std);
  Compare(golden, "point_weight", points.weight, bounds.weight);

  const auto density = driver.NewDensity(golden.Tile(context, rows), golden.y_target());
  const auto decode = driver.NewDecode(golden.Tile(context, rows), 0, 0, golden.y_target());
  driver.RunAll({density.get(), decode.get()}, 3);
  MixtureLists mixtures;
  for (int64_t p = 0; p < golden.paths(); ++p) {
    for (int64_t t = 0; t < golden.targets(); ++t) mixtures.Add(density->mixture(p, t));
  }
  Compare(golden, "mean", mixtures.mean, bounds.mean);
  Compare(golden, "std", mixtures.std, bounds.std);
  Compare(golden, "weight", mixtures.weight, bounds.weight);
  EXPECT_EQ(decode->log_densities(), density->log_densities());
  const std::vector<double> log_densities(density->log_densities().begin(),
                                          density->log_densities().end());
  Compare(golden, "log_density", Transposed(log_densities, golden.targets(), golden.paths()),
          bounds.log_density);
}

INSTANTIATE_TEST_SUITE_P(, CudaGoldenTest, testing::ValuesIn(kCudaGoldenBounds),
                         [](const auto& info) { return info.param.model; });

}  // namespace
}  // namespace chorale
