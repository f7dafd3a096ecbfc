// The golden models: every quantity against values that another implementation computed in float64.
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/golden_case.h"
#include "tests/engine/backend/path_arrays.h"

namespace chorale {
namespace {

using under_test::Size;

// Each model on each instruction set.
class GoldenTest : public under_test::BackendTest,
                   public testing::WithParamInterface<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (IsSkipped()) return;
    if (under_test::TooLargeForDevice(ModelName() == "golden_tiny" ? Size::kSmall : Size::kLarge)) {
      GTEST_SKIP() << "too large for the emulator";
    }
    under_test::UseInstructionSet(std::get<1>(GetParam()));
    driver_.emplace(under_test::NewDriver());
    context_ = driver_->Encode(driver_->AddModel(golden_.model()), golden_.x_context(),
                               golden_.y_context());
    rows_ = driver_->EncodeRows(context_, golden_.x_target());
  }
  void TearDown() override { under_test::UseBestInstructionSet(); }

  static std::string ModelName() { return std::get<0>(GetParam()); }

  void Compare(const std::string& tensor, const std::vector<double>& actual, double bound) {
    const std::vector<double> expected = golden_.Expected(tensor);
    const Worst worst =
        ExpectClose(tensor, absl::MakeConstSpan(actual), absl::MakeConstSpan(expected), bound);
    std::cout << ModelName() << " " << std::get<1>(GetParam()) << " " << tensor
              << ": worst absolute error " << worst << "\n";
  }

  // Of a density or a decode, which has mixture(path, position).
  template <typename PathWork>
  void ComparePaths(const PathWork& work, const std::string& log_densities) {
    MixtureLists mixtures;
    for (int64_t path = 0; path < golden_.paths(); ++path) {
      for (int64_t t = 0; t < golden_.query_rows(); ++t) mixtures.Add(work.mixture(path, t));
    }
    Compare("mean", mixtures.mean, bounds_.mean);
    Compare("std", mixtures.std, bounds_.std);
    Compare("weight", mixtures.weight, bounds_.weight);
    const std::vector<double> by_position(work.log_densities().begin(), work.log_densities().end());
    Compare(log_densities, Transposed(by_position, golden_.query_rows(), golden_.paths()),
            bounds_.log_density);
  }

  const GoldenCase golden_{ModelName()};
  const GoldenBounds bounds_ = under_test::BoundsOf(ModelName());
  std::optional<BackendDriver> driver_;
  std::shared_ptr<const ResidentContext> context_;
  std::shared_ptr<const EncodedRows> rows_;
};

TEST_P(GoldenTest, PointPredictions) {
  const std::unique_ptr<PredictWork> work =
      driver_->NewPredict(context_, rows_, 0, golden_.query_rows());
  driver_->Run(work.get());
  MixtureLists mixtures;
  for (int64_t row = 0; row < golden_.query_rows(); ++row) mixtures.Add(work->mixture(row));
  Compare("point_mean", mixtures.mean, bounds_.mean);
  Compare("point_std", mixtures.std, bounds_.std);
  Compare("point_weight", mixtures.weight, bounds_.weight);
}

TEST_P(GoldenTest, DensityAndDecodeOfForcedValues) {
  const TileSpec tile = golden_.Tile(context_, rows_);
  const std::unique_ptr<DensityWork> density = driver_->NewDensity(tile, golden_.y_target());
  const std::unique_ptr<DecodeWork> decode = driver_->NewDecode(tile, 0, 0, golden_.y_target());
  driver_->RunAll({density.get(), decode.get()}, 3);
  ComparePaths(*density, "log_density");
  ComparePaths(*decode, "step_log_density");
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest,
                         testing::Combine(testing::Values("golden_tiny", "golden_base"),
                                          testing::ValuesIn(under_test::InstructionSets())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace chorale
