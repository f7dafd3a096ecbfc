// Known values: the values at the first positions of a path are given, the others are drawn given
// them, and a path may leave query rows out.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/ops/mixture_head.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/kolmogorov.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/path_arrays.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

using under_test::Size;
using Order = LoadedCase::Order;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

struct NamedCase {
  std::string name;
  ModelCase model_case;
  under_test::Resources resources = {};
};

// On a GPU, a case for each kernel that embeds paths or draws. The emulator takes long for the
// unfused form.
std::vector<NamedCase> Cases() {
  if (under_test::LinkedDevice() == under_test::Device::kCpu) {
    return {{"Cpu",
             {.options = {.d_model = 64, .n_heads = 4, .n_kv_heads = 2, .n_layers = 3},
              .context_rows = 70,
              .query_rows = 19,
              .paths = 9}}};
  }
  const TestModelOptions fused = {.d_model = 64, .n_heads = 2, .n_kv_heads = 1, .n_layers = 1};
  const auto model_case = [](const TestModelOptions& options) {
    return ModelCase{.options = options, .context_rows = 40, .query_rows = 4, .paths = 9};
  };
  std::vector<NamedCase> cases = {
      {"Fused", model_case(fused)},
      {"AllLayers", model_case(AllLayersModel(1)), {.any_tiles_in_all_layers = true}}};
  if (!under_test::TooLargeForDevice(Size::kMedium)) {
    TestModelOptions unfused = fused;
    unfused.d_ff = 4'160;
    cases.push_back({"Unfused", model_case(unfused)});
  }
  return cases;
}

// Of a decode.
struct Results {
  explicit Results(const DecodeWork& work)
      : values(work.values().begin(), work.values().end()),
        log_densities(work.log_densities().begin(), work.log_densities().end()) {}
  bool operator==(const Results&) const = default;

  Floats values;
  Doubles log_densities;
};

class KnownValuesTest : public under_test::BackendTest,
                        public testing::WithParamInterface<NamedCase> {
 protected:
  static constexpr int64_t kFirstPath = 3;

  void SetUp() override {
    BackendTest::SetUp();
    if (IsSkipped()) return;
    driver_.emplace(under_test::NewDriver(GetParam().resources));
    loaded_.emplace(case_, *driver_);
  }

  std::vector<int64_t> NumbersOfKnownValues() const { return {0, 1, positions_ - 1, positions_}; }

  // The first `count` positions of an array [T, paths].
  Floats First(int64_t count, const Floats& values) const {
    return {values.begin(), values.begin() + count * case_.paths};
  }

  // In random orders.
  std::unique_ptr<DecodeWork> NewDecode(Floats forced) {
    return driver_->NewDecode(loaded_->Tile(Order::kRandom), case_.seed, kFirstPath,
                              std::move(forced));
  }
  Results Decode(Floats forced) {
    const std::unique_ptr<DecodeWork> work = NewDecode(std::move(forced));
    driver_->Run(work.get());
    return Results(*work);
  }

  const ModelCase case_ = GetParam().model_case;
  const int64_t positions_ = case_.query_rows;
  std::optional<BackendDriver> driver_;
  std::optional<LoadedCase> loaded_;
};

// Each path has other known values.
TEST_P(KnownValuesTest, TheOtherValuesAreDrawnGivenThem) {
  const Results unconditional = Decode({});
  for (const int64_t known : NumbersOfKnownValues()) {
    SCOPED_TRACE(known);
    const Floats forced = First(known, case_.Values());
    const Results results = Decode(forced);
    EXPECT_EQ(First(known, results.values), forced);
    for (size_t i = forced.size(); i < results.values.size(); ++i) {
      EXPECT_EQ(results.values[i] == unconditional.values[i], known == 0) << i;
    }
    const auto density = driver_->NewDensity(loaded_->Tile(Order::kRandom), results.values);
    driver_->Run(density.get());
    ExpectClose("log density", absl::MakeConstSpan(results.log_densities), density->log_densities(),
                under_test::DecodeTolerance());
    EXPECT_TRUE(Decode(results.values) == results) << "all values are known";
  }
}

TEST_P(KnownValuesTest, ValuesAsDrawnChangeNothing) {
  const Results unconditional = Decode({});
  for (const int64_t known : NumbersOfKnownValues()) {
    EXPECT_TRUE(Decode(First(known, unconditional.values)) == unconditional) << known;
  }
}

TEST_P(KnownValuesTest, KnownValuesOfAPathChangeThatPathAlone) {
  constexpr int64_t kPath = 4;
  Floats forced = First(1, case_.Values());
  const Results before = Decode(forced);
  forced[kPath] += 1;
  const Results after = Decode(forced);
  for (size_t i = 0; i < before.values.size(); ++i) {
    const bool changed = static_cast<int64_t>(i) % case_.paths == kPath;
    EXPECT_EQ(before.values[i] != after.values[i], changed) << i;
    EXPECT_EQ(before.log_densities[i] != after.log_densities[i], changed) << i;
  }
}

// Next to decodes with more known values and without any.
TEST_P(KnownValuesTest, SameBitsInAnySlicing) {
  const Floats forced = First(2, case_.Values());
  const Results expected = Decode(forced);
  for (const int64_t steps : {1, 2, 3}) {
    const auto work = NewDecode(forced);
    const auto scored = NewDecode(case_.Values());
    const auto drawn = NewDecode({});
    driver_->RunAll({scored.get(), work.get(), drawn.get()}, steps);
    EXPECT_TRUE(Results(*work) == expected) << steps;
    EXPECT_EQ(Results(*scored).values, case_.Values());
  }
}

// The mixture of every position is the same whatever the values, so the draws are the same as long
// as the random numbers are.
TEST_P(KnownValuesTest, DrawsHaveTheRandomNumbersOfTheirPositions) {
  const Model model = MakeConstantModel(
      {{.mean = -1, .std = 0.5f, .weight = 0.3f}, {.mean = 1.5f, .std = 0.8f, .weight = 0.7f}},
      case_.options);
  const LoadedCase loaded(
      case_, *driver_,
      driver_->Encode(driver_->AddModel(model), case_.XContext(), case_.YContext()));
  const auto draw = [&](Floats forced) {
    const auto work = driver_->NewDecode(loaded.Tile(), case_.seed, kFirstPath, std::move(forced));
    driver_->Run(work.get());
    return Results(*work).values;
  };
  Floats expected = draw({});
  const Floats forced = First(2, case_.Values());
  std::copy(forced.begin(), forced.end(), expected.begin());
  EXPECT_EQ(draw(forced), expected);
}

// Every path has other query rows. Its results are those of a path that has no others.
TEST_P(KnownValuesTest, OrdersThatLeaveQueryRowsOut) {
  const FeatureMatrix all = case_.XTarget();
  for (const int64_t positions : {1, 3}) {
    SCOPED_TRACE(positions);
    TileSpec tile = loaded_->Tile();
    for (int64_t p = 0; p < case_.paths; ++p) {
      for (int64_t t = 0; t < positions; ++t) {
        tile.order.push_back(static_cast<int32_t>((5 * p + 3 * t + 1) % case_.query_rows));
      }
    }
    const Floats forced = First(positions / 2, case_.Values());
    const auto decode = driver_->NewDecode(tile, case_.seed, kFirstPath, forced);
    driver_->Run(decode.get());
    ASSERT_EQ(decode->steps_done(), positions);
    const Results results(*decode);
    ASSERT_EQ(results.values.size(), static_cast<size_t>(positions * case_.paths));
    const auto density = driver_->NewDensity(tile, results.values);
    driver_->Run(density.get());
    const Doubles log_densities(density->log_densities().begin(), density->log_densities().end());
    for (const int64_t p : {int64_t{0}, int64_t{3}, case_.paths - 1}) {
      SCOPED_TRACE(p);
      FeatureMatrix rows = all;
      rows.rows = positions;
      rows.x.clear();
      rows.missing.clear();
      for (int64_t t = 0; t < positions; ++t) {
        const int64_t first = tile.order[p * positions + t] * all.features;
        rows.x.insert(rows.x.end(), &all.x[first], &all.x[first] + all.features);
        rows.missing.insert(rows.missing.end(), &all.missing[first],
                            &all.missing[first] + all.features);
      }
      const TileSpec alone = {.context = loaded_->context(),
                              .query_rows = driver_->EncodeRows(loaded_->context(), rows),
                              .paths = 1,
                              .first_mixture = 0};
      const auto of_path = [&](const auto& array) { return SelectPaths(array, case_.paths, p, 1); };
      const auto path = driver_->NewDecode(alone, case_.seed, kFirstPath + p, of_path(forced));
      driver_->Run(path.get());
      EXPECT_EQ(Results(*path).values, of_path(results.values));
      EXPECT_EQ(Results(*path).log_densities, of_path(results.log_densities));
      const auto path_density = driver_->NewDensity(alone, of_path(results.values));
      driver_->Run(path_density.get());
      EXPECT_EQ(path_density->log_densities(), absl::MakeConstSpan(of_path(log_densities)));
      for (int64_t t = 0; t < positions; ++t) {
        EXPECT_EQ(path->mixture(0, t).mean, decode->mixture(p, t).mean);
        EXPECT_EQ(path_density->mixture(0, t).mean, density->mixture(p, t).mean);
      }
    }
  }
}

// Which mixtures are kept changes no value, and the mixtures that are kept are those of all.
TEST_P(KnownValuesTest, MixturesOfTheLastPositions) {
  if (IsSkipped()) return;
  const auto decode = [&](int64_t first_mixture) {
    TileSpec tile = loaded_->Tile();
    tile.first_mixture = first_mixture;
    return driver_->NewDecode(tile, case_.seed, kFirstPath, First(2, case_.Values()));
  };
  const auto all = decode(0);
  const auto last = decode(case_.query_rows - 1);
  const auto later = decode(1);
  const auto none = decode(TileSpec::kNoMixtures);
  driver_->RunAll({last.get(), all.get(), later.get(), none.get()}, 1'000);
  for (const auto& [some, first] :
       {std::pair(last.get(), case_.query_rows - 1), std::pair(later.get(), int64_t{1})}) {
    EXPECT_EQ(Results(*some).values, Results(*all).values);
    EXPECT_EQ(Results(*some).log_densities, Results(*all).log_densities);
    for (int64_t t = first; t < case_.query_rows; ++t) {
      for (const int64_t p : {int64_t{0}, case_.paths - 1}) {
        EXPECT_EQ(some->mixture(p, t).mean, all->mixture(p, t).mean);
        EXPECT_EQ(some->mixture(p, t).log_weight, all->mixture(p, t).log_weight);
      }
    }
  }
  EXPECT_EQ(Results(*none).values, Results(*all).values);
}

INSTANTIATE_TEST_SUITE_P(Forms, KnownValuesTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

kernels::MixtureView ViewOf(const MixtureSpan& mixture) {
  return {mixture.mean.data(), mixture.std.data(), mixture.log_weight.data(),
          static_cast<int64_t>(mixture.mean.size())};
}

// Query row 0 is known, rows 1 and 2 are drawn.
class ConditionalTest : public under_test::BackendTest {
 protected:
  static constexpr int64_t kTilePaths = 32;
  static constexpr int64_t kPositions = 3;

  void SetUp() override {
    BackendTest::SetUp();
    if (IsSkipped()) return;
    driver_.emplace(under_test::NewDriver());
    loaded_.emplace(
        ModelCase{.options = {.d_model = 16, .n_heads = 2, .n_kv_heads = 2, .d_ff = 16, .seed = 6},
                  .context_rows = 1,
                  .query_rows = kPositions,
                  .paths = kTilePaths},
        *driver_);
  }

  std::unique_ptr<DensityWork> Density(const Floats& values) {
    std::unique_ptr<DensityWork> work = loaded_->Density(values);
    driver_->Run(work.get());
    return work;
  }

  // F(y2 | y0) = int p(y1 | y0) F(y2 | y0, y1) dy1, by the trapezoidal rule.
  class RowTwoGiven {
   public:
    RowTwoGiven(float known, ConditionalTest& test) {
      constexpr int64_t kTiles = 2;
      constexpr double kDeviations = 8;
      Floats values(kPositions * kTilePaths);
      std::fill_n(values.begin(), kTilePaths, known);
      const auto at_any = test.Density(values);
      const kernels::MixtureView row_one = ViewOf(at_any->mixture(0, 1));
      const double first =
          kernels::MixtureMean(row_one) - kDeviations * kernels::MixtureStd(row_one);
      step_ = 2 * kDeviations * kernels::MixtureStd(row_one) / (kTiles * kTilePaths);
      for (int64_t tile = 0; tile < kTiles; ++tile) {
        for (int64_t p = 0; p < kTilePaths; ++p) {
          const auto i = static_cast<double>(tile * kTilePaths + p);
          values[kTilePaths + p] = static_cast<float>(first + i * step_);
        }
        tiles_.push_back(test.Density(values));
      }
      EXPECT_NEAR((*this)(1e6), 1, 1e-4) << "the range has all probability";
    }

    double operator()(double y) const {
      double sum = 0;
      for (const std::unique_ptr<DensityWork>& tile : tiles_) {
        for (int64_t p = 0; p < kTilePaths; ++p) {
          sum += std::exp(tile->log_densities()[kTilePaths + p]) * step_ *
                 kernels::MixtureCdf(ViewOf(tile->mixture(p, 2)), y);
        }
      }
      return sum;
    }

   private:
    double step_ = 0;
    std::vector<std::unique_ptr<DensityWork>> tiles_;
  };

  std::optional<BackendDriver> driver_;
  std::optional<LoadedCase> loaded_;
};

TEST_F(ConditionalTest, DrawsFollowTheConditionalDistribution) {
  constexpr float kKnown = 2;
  const int64_t tiles = under_test::TooLargeForDevice(Size::kLarge) ? 6 : 625;
  std::vector<std::unique_ptr<DecodeWork>> decodes;
  std::vector<Work*> works;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    decodes.push_back(
        driver_->NewDecode(loaded_->Tile(), 12345, tile * kTilePaths, Floats(kTilePaths, kKnown)));
    works.push_back(decodes.back().get());
  }
  driver_->RunAll(works, kPositions);
  Doubles draws;
  for (const std::unique_ptr<DecodeWork>& decode : decodes) {
    const auto row_two = decode->values().subspan(2 * kTilePaths);
    draws.insert(draws.end(), row_two.begin(), row_two.end());
  }
  EXPECT_LT(ScaledDistance(draws, RowTwoGiven(kKnown, *this)), kLargestDistance);
  EXPECT_GT(ScaledDistance(draws, RowTwoGiven(-kKnown, *this)), kLargestDistance);
}

// log p(all) = log p(known) + log p(the others | known). The known values alone are those of a path
// that leaves the other query rows out.
TEST_F(ConditionalTest, DensitiesAddUp) {
  const Floats known = MakeValues(kTilePaths, 5);
  const auto decode = driver_->NewDecode(loaded_->Tile(), 1, 0, known);
  TileSpec first_row = loaded_->Tile();
  first_row.order.assign(kTilePaths, 0);
  const auto of_known = driver_->NewDensity(first_row, known);
  driver_->RunAll({decode.get(), of_known.get()}, kPositions);
  const auto of_all = Density(Floats(decode->values().begin(), decode->values().end()));
  ASSERT_EQ(of_known->log_densities().size(), static_cast<size_t>(kTilePaths));
  for (int64_t p = 0; p < kTilePaths; ++p) {
    double all = 0, others = 0;
    for (int64_t t = 0; t < kPositions; ++t) {
      all += of_all->log_densities()[t * kTilePaths + p];
      if (t > 0) others += decode->log_densities()[t * kTilePaths + p];
    }
    EXPECT_NEAR(all, of_known->log_densities()[p] + others, 1e-4) << p;
  }
}

}  // namespace
}  // namespace chorale
