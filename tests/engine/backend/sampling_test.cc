// Draws have the right distribution and the right density.
#include <cmath>
#include <memory>
#include <numbers>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/ops/mixture_head.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/kolmogorov.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

using under_test::Size;
using Order = LoadedCase::Order;
using SamplingTest = under_test::BackendTest;

// Decode and teacher forcing are two computations of one quantity.
TEST_F(SamplingTest, DensityOfWhatWasDrawn) {
  ModelCase model_case = {.options = {.n_layers = 4}, .query_rows = 30, .paths = 32};
  if (under_test::TooLargeForDevice(Size::kLarge)) {
    model_case = {.options = {.n_layers = 2}, .query_rows = 5, .paths = 9};
  }
  BackendDriver driver = under_test::NewDriver();
  const LoadedCase loaded(model_case, driver);
  for (Order order : {Order::kGiven, Order::kRandom}) {
    const auto decode = loaded.DecodeDrawn(0, model_case.paths, order);
    driver.Run(decode.get());
    const std::vector<float> drawn(decode->values().begin(), decode->values().end());
    const auto density = loaded.Density(drawn, order);
    driver.Run(density.get());
    ExpectClose("log density", decode->log_densities(), density->log_densities(),
                under_test::DecodeTolerance());
  }
}

TEST_F(SamplingTest, SeedAndPathDecideTheDraws) {
  ModelCase model_case = {.query_rows = 4, .paths = 8};
  BackendDriver driver = under_test::NewDriver();
  const LoadedCase loaded(model_case, driver);
  const auto draw = [&](uint64_t seed, int64_t first_path) {
    const auto work = driver.NewDecode(loaded.Tile(), seed, first_path, {});
    driver.Run(work.get());
    return std::vector<float>(work->values().begin(), work->values().end());
  };
  const std::vector<float> values = draw(1, 0);
  EXPECT_EQ(draw(1, 0), values);
  EXPECT_NE(draw(2, 0), values);
  EXPECT_NE(draw(1, 8), values);
  EXPECT_EQ(draw(1, 3)[0], values[3]);  // step 0 sees no buffer: path 3 under another number
}

// The numbers of the paths of a tile need not be consecutive.
TEST_F(SamplingTest, PathNumbersDecideTheDraws) {
  ModelCase model_case = {.query_rows = 3, .paths = 4};
  BackendDriver driver = under_test::NewDriver();
  const LoadedCase loaded(model_case, driver);
  const auto draw = [&](const std::vector<uint64_t>& path_numbers) {
    DecodeSpec spec;
    spec.tile = loaded.Tile();
    spec.seed = 9;
    spec.path_numbers = path_numbers;
    const auto work = driver.NewDecode(std::move(spec));
    driver.Run(work.get());
    return std::vector<float>(work->values().begin(), work->values().end());
  };
  constexpr uint64_t kHigh = uint64_t{1} << 32;
  const std::vector<float> values = draw({0, 1, kHigh, 7 * kHigh + 1});
  const std::vector<float> permuted = draw({7 * kHigh + 1, kHigh, 0, 0});
  for (int64_t position = 0; position < model_case.query_rows; ++position) {
    const int64_t at = position * model_case.paths;
    EXPECT_EQ(permuted[at], values[at + 3]) << position;
    EXPECT_EQ(permuted[at + 1], values[at + 2]) << position;
    EXPECT_EQ(permuted[at + 2], values[at]) << position;
    EXPECT_EQ(permuted[at + 3], values[at]) << position;
    EXPECT_NE(values[at], values[at + 2]) << position;
    EXPECT_NE(values[at + 1], values[at + 3]) << position;
  }
}

// 20,000 draws of a mixture that is the same at every step.
class DistributionTest : public under_test::BackendTest {
 protected:
  static constexpr int64_t kPaths = 20'000;
  static constexpr int64_t kQueryRows = 3;

  void SetUp() override {
    BackendTest::SetUp();
    if (IsSkipped()) return;
    if (under_test::TooLargeForDevice(Size::kLarge)) GTEST_SKIP() << "too large for the emulator";
    BackendDriver driver = under_test::NewDriver();
    const ModelCase model_case = {.context_rows = 4, .query_rows = kQueryRows, .paths = 32};
    const TestModelOptions small = {
        .d_model = 8, .n_heads = 1, .n_kv_heads = 1, .n_layers = 1, .d_ff = 8};
    const auto context = driver.Encode(driver.AddModel(MakeConstantModel(mixture_, small)),
                                       model_case.XContext(), model_case.YContext());
    const auto rows = driver.EncodeRows(context, model_case.XTarget());
    std::vector<std::unique_ptr<DecodeWork>> tiles;
    std::vector<Work*> works;
    for (int64_t first = 0; first < kPaths; first += 32) {
      TileSpec tile;
      tile.context = context;
      tile.query_rows = rows;
      tile.paths = 32;
      tiles.push_back(driver.NewDecode(std::move(tile), 12345, first, {}));
      works.push_back(tiles.back().get());
    }
    driver.RunAll(works, kQueryRows);
    draws_.resize(kQueryRows);
    for (const std::unique_ptr<DecodeWork>& tile : tiles) {
      for (int64_t t = 0; t < kQueryRows; ++t) {
        const auto step = tile->values().subspan(t * 32, 32);
        draws_[t].insert(draws_[t].end(), step.begin(), step.end());
      }
    }
  }

  double Cdf(double y) const {
    double total = 0, sum = 0;
    for (const MixtureComponent& c : mixture_) {
      total += c.weight;
      sum += c.weight * std::erfc(-(y - c.mean) / c.std / std::numbers::sqrt2) / 2;
    }
    return sum / total;
  }

  const std::vector<MixtureComponent> mixture_ = {{.mean = -1, .std = 0.5f, .weight = 0.3f},
                                                  {.mean = 1.5f, .std = 0.8f, .weight = 0.7f}};
  std::vector<std::vector<double>> draws_;  // [T][paths]
};

TEST_F(DistributionTest, DrawsFollowTheMixture) {
  for (const std::vector<double>& draws : draws_) {
    ASSERT_EQ(draws.size(), static_cast<size_t>(kPaths));
    EXPECT_LT(ScaledDistance(draws, [this](double y) { return Cdf(y); }), kLargestDistance);
  }
}

// Steps of one path, and neighbouring paths at one step, are independent: after the probability
// transform their correlation is below 4 standard errors.
TEST_F(DistributionTest, DrawsAreIndependent) {
  const auto correlation = [&](const std::vector<double>& a, const std::vector<double>& b,
                               int64_t shift) {
    double sum = 0;
    for (int64_t i = 0; i + shift < kPaths; ++i) {
      sum += (Cdf(a[i]) - 0.5) * (Cdf(b[i + shift]) - 0.5) * 12;
    }
    return sum / static_cast<double>(kPaths - shift);
  };
  const double bound = 4 / std::sqrt(static_cast<double>(kPaths));
  EXPECT_LT(std::abs(correlation(draws_[0], draws_[1], 0)), bound);
  EXPECT_LT(std::abs(correlation(draws_[1], draws_[2], 0)), bound);
  EXPECT_LT(std::abs(correlation(draws_[0], draws_[0], 1)), bound);
  EXPECT_LT(std::abs(correlation(draws_[0], draws_[0], 32)), bound);
  EXPECT_NEAR(correlation(draws_[0], draws_[0], 0), 1, 0.05);  // the statistic itself works
}

}  // namespace
}  // namespace chorale
