// A call's result depends on nothing but the call: the same bits with any resources, any slicing,
// any other work in the same Advance, and any split of paths into tiles.
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/path_arrays.h"
#include "tests/engine/backend/work_results.h"

namespace chorale {
namespace {

using under_test::NewDriver;
using under_test::Resources;
using under_test::Size;
using Order = LoadedCase::Order;
using Doubles = std::vector<double>;

struct DeterminismCase {
  std::string name;
  ModelCase model_case;
  std::vector<Resources> other_resources;
  Size size = Size::kSmall;
};

// A GPU is tested by cases that the emulator takes seconds for, with keys for several splits: one
// for each form of a layer.
std::vector<DeterminismCase> Cases() {
  if (under_test::LinkedDevice() == under_test::Device::kCpu) {
    return {{"Cpu",
             {.options = {.d_model = 64, .n_heads = 4, .n_kv_heads = 2, .n_layers = 3},
              .context_rows = 150,
              .query_rows = 19,
              .paths = 32},
             under_test::OtherResources()}};
  }
  const TestModelOptions fused = {.d_model = 64, .n_heads = 2, .n_kv_heads = 1, .n_layers = 2};
  TestModelOptions wide = fused;
  wide.d_ff = 4'160;
  return {{"Fused",
           {.options = fused, .context_rows = 270, .query_rows = 4, .paths = 18},
           under_test::OtherResources()},
          // The second resources hold two tiles of a launch.
          {"Wide",
           {.options = wide, .context_rows = 140, .query_rows = 4, .paths = 18},
           {{.workspace_bytes = 4 << 20}},
           Size::kMedium}};
}

// Decodes of all paths of a case, in tiles of these numbers of paths.
std::vector<std::unique_ptr<DecodeWork>> DecodeTiles(const LoadedCase& loaded,
                                                     const std::vector<int64_t>& split) {
  std::vector<std::unique_ptr<DecodeWork>> tiles;
  int64_t first = 0;
  for (const int64_t count : split) {
    tiles.push_back(loaded.DecodeDrawn(first, count, Order::kRandom));
    first += count;
  }
  EXPECT_EQ(first, loaded.model_case().paths);
  return tiles;
}

std::vector<Work*> WorksOf(const std::vector<std::unique_ptr<DecodeWork>>& tiles) {
  std::vector<Work*> works;
  for (const std::unique_ptr<DecodeWork>& tile : tiles) works.push_back(tile.get());
  return works;
}

// The results of such decodes, of all paths.
struct PathResults {
  PathResults(const std::vector<std::unique_ptr<DecodeWork>>& tiles, int64_t query_rows) {
    std::vector<absl::Span<const float>> values_of_tiles;
    std::vector<absl::Span<const double>> log_densities_of_tiles;
    for (const std::unique_ptr<DecodeWork>& tile : tiles) {
      values_of_tiles.push_back(tile->values());
      log_densities_of_tiles.push_back(tile->log_densities());
    }
    const std::vector<float> joined = JoinTiles(values_of_tiles, query_rows);
    values.assign(joined.begin(), joined.end());
    log_densities = JoinTiles(log_densities_of_tiles, query_rows);
  }

  bool operator==(const PathResults&) const = default;

  Doubles values, log_densities;
};

class DeterminismTest : public under_test::BackendTest,
                        public testing::WithParamInterface<DeterminismCase> {
 protected:
  // For tests that take long.
  static bool TakesTooLong() { return under_test::TooLargeForDevice(GetParam().size); }
  static const ModelCase& Case() { return GetParam().model_case; }

  static WorkResults RunAlone(const Resources& resources, int64_t steps_per_slice) {
    BackendDriver driver = NewDriver(resources);
    const LoadedCase loaded(Case(), driver, steps_per_slice);
    const auto decode = loaded.DecodeDrawn(0, Case().paths, Order::kRandom);
    const auto density = loaded.Density(Case().Values(), Order::kRandom);
    const auto predict = loaded.Predict(0, Case().query_rows);
    driver.Run(decode.get(), steps_per_slice);
    driver.Run(density.get(), steps_per_slice);
    driver.Run(predict.get(), steps_per_slice);
    return WorkResults(*decode, *density, *predict, Case().query_rows);
  }

  // Of one run of each case.
  static const WorkResults& Expected() {
    static auto* const results = new std::map<std::string, WorkResults>;
    const auto found = results->find(GetParam().name);
    if (found != results->end()) return found->second;
    return results->emplace(GetParam().name, RunAlone({}, 1'000)).first->second;
  }
};

TEST_P(DeterminismTest, ResultsAreNotTrivial) {
  for (const Doubles* numbers : {&Expected().values, &Expected().decode, &Expected().density}) {
    ASSERT_EQ(numbers->size(), static_cast<size_t>(Case().paths * Case().query_rows));
    EXPECT_NE((*numbers)[0], (*numbers)[1]);
  }
}

TEST_P(DeterminismTest, AnyResources) {
  for (const Resources& resources : GetParam().other_resources) {
    EXPECT_TRUE(RunAlone(resources, 1'000) == Expected())
        << resources.threads << " threads, workspace of " << resources.workspace_bytes << " bytes";
  }
}

TEST_P(DeterminismTest, AnySlicing) {
  if (TakesTooLong()) GTEST_SKIP() << "too large for the emulator";
  for (const int64_t steps : {1, 2, 7}) {
    EXPECT_TRUE(RunAlone({}, steps) == Expected()) << steps;
    EXPECT_TRUE(RunAlone({.threads = 1}, steps) == Expected()) << steps;
  }
}

// All kinds of work at once, with another model's on top.
TEST_P(DeterminismTest, AnyOtherWork) {
  if (TakesTooLong()) GTEST_SKIP() << "too large for the emulator";
  const ModelCase other_case = {
      .options = {.seed = 9}, .context_rows = 333, .query_rows = 5, .paths = 13};
  std::vector<Resources> all = {{}};
  if (under_test::LinkedDevice() == under_test::Device::kCpu) all.push_back({.threads = 3});
  for (const Resources& resources : all) {
    BackendDriver driver = NewDriver(resources);
    const LoadedCase other(other_case, driver);
    const LoadedCase loaded(Case(), driver);
    const auto other_model = driver.AddModel(MakeTestModel(other_case.options));
    const auto encode = driver.NewEncode(other_model, other_case.XContext(), other_case.YContext());
    const auto noise = other.DecodeDrawn(0, 13, Order::kGiven);
    const auto same_model_noise = loaded.DecodeDrawn(3, 7, Order::kGiven);
    const auto decode = loaded.DecodeDrawn(0, Case().paths, Order::kRandom);
    const auto more_noise = other.Density(other_case.Values());
    const auto density = loaded.Density(Case().Values(), Order::kRandom);
    const auto predict = loaded.Predict(0, Case().query_rows);
    driver.RunAll({encode.get(), noise.get(), same_model_noise.get(), decode.get(),
                   more_noise.get(), density.get(), predict.get()},
                  3);
    EXPECT_TRUE(WorkResults(*decode, *density, *predict, Case().query_rows) == Expected())
        << resources.threads << " threads";
  }
}

// Paths keep their numbers in the session, so every tile draws what the whole would have drawn.
TEST_P(DeterminismTest, AnySplitIntoTiles) {
  if (TakesTooLong()) GTEST_SKIP() << "too large for the emulator";
  const int64_t paths = Case().paths;
  std::vector<std::vector<int64_t>> splits = {{1, 8, paths - 9}};
  if (under_test::LinkedDevice() == under_test::Device::kCpu) {
    splits.insert(splits.end(),
                  {{1, paths - 1}, {paths / 2, paths / 2}, std::vector<int64_t>(paths, 1)});
  }
  for (const std::vector<int64_t>& split : splits) {
    BackendDriver driver = NewDriver();
    const LoadedCase loaded(Case(), driver);
    const std::vector<std::unique_ptr<DecodeWork>> tiles = DecodeTiles(loaded, split);
    driver.RunAll(WorksOf(tiles), 2);
    const PathResults joined(tiles, Case().query_rows);
    EXPECT_EQ(joined.values, Expected().values) << split.size();
    EXPECT_EQ(joined.log_densities, Expected().decode) << split.size();
  }
}

TEST_P(DeterminismTest, APredictionDoesNotDependOnTheRowsBesideIt) {
  if (TakesTooLong()) GTEST_SKIP() << "too large for the emulator";
  ModelCase many = Case();
  many.query_rows = 150;
  BackendDriver driver = NewDriver();
  const LoadedCase loaded(many, driver);
  const auto all = loaded.Predict(0, 150);
  const auto part = loaded.Predict(70, 75);
  driver.RunAll({all.get(), part.get()}, 1);
  for (int64_t row = 0; row < 75; ++row) {
    EXPECT_EQ(part->mixture(row).mean, all->mixture(70 + row).mean);
    EXPECT_EQ(part->mixture(row).log_weight, all->mixture(70 + row).log_weight);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, DeterminismTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

class AllLayersDeterminismTest : public under_test::BackendTest {};

// On a GPU, the kernel of all layers computes a tile alone, and two tiles next to a tile of another
// context, which is idle in the last step.
TEST_F(AllLayersDeterminismTest, SameBitsAsLayerByLayer) {
  const ModelCase model_case = {
      .options = AllLayersModel(2), .context_rows = 40, .query_rows = 3, .paths = 12};
  const ModelCase other_case = {.context_rows = 70, .query_rows = 2, .seed = 70};
  const auto run = [&](const Resources& resources, const std::vector<int64_t>& split,
                       bool next_to_other) {
    BackendDriver driver = NewDriver(resources);
    const LoadedCase loaded(model_case, driver);
    const std::vector<std::unique_ptr<DecodeWork>> tiles = DecodeTiles(loaded, split);
    std::vector<Work*> works = WorksOf(tiles);
    std::unique_ptr<DecodeWork> other;
    if (next_to_other) {
      TileSpec tile = {.paths = 9};
      tile.context =
          driver.Encode(loaded.context()->model, other_case.XContext(), other_case.YContext());
      tile.query_rows = driver.EncodeRows(tile.context, other_case.XTarget());
      other = driver.NewDecode(tile, other_case.seed, 0, {});
      works.insert(works.begin(), other.get());
    }
    driver.RunAll(works, model_case.query_rows);
    return PathResults(tiles, model_case.query_rows);
  };
  const PathResults expected = run({}, {12}, false);
  const Resources all_layers = {.any_tiles_in_all_layers = true};
  EXPECT_TRUE(run(all_layers, {12}, false) == expected);
  EXPECT_TRUE(run(all_layers, {5, 7}, true) == expected);
}

class DensityDeterminismTest : public under_test::BackendTest {};

struct DensityCase {
  ModelCase model_case;
  Size size = Size::kSmall;
};

// One path at a time in a group, many, groups that do not fill, one layer, no buffer at all, and
// the smaller steps of a large context.
TEST_F(DensityDeterminismTest, DensitiesOfAnyShapeInAnySlicing) {
  const TestModelOptions grouped = {.n_kv_heads = 1, .n_layers = 3};
  const std::vector<DensityCase> cases = {
      {{.options = grouped, .query_rows = 1, .paths = 32}},
      {{.options = {.n_layers = 1}, .query_rows = 33, .paths = 32}, Size::kLarge},
      {{.options = grouped, .query_rows = 100, .paths = 32}, Size::kLarge},
      {{.options = grouped, .query_rows = 1'030, .paths = 2}, Size::kLarge},
      {{.options = {.d_model = 16, .n_heads = 1, .n_kv_heads = 1},
        .context_rows = 8'193,
        .query_rows = 20,
        .paths = 3},
       Size::kLarge}};
  for (const DensityCase& each : cases) {
    if (under_test::TooLargeForDevice(each.size)) continue;
    const ModelCase& model_case = each.model_case;
    const auto run = [&](int threads, int64_t steps_per_slice) {
      BackendDriver driver = NewDriver({.threads = threads});
      const LoadedCase loaded(model_case, driver, 1'000);
      const auto work = loaded.Density(model_case.Values(), Order::kRandom);
      driver.Run(work.get(), steps_per_slice);
      return Doubles(work->log_densities().begin(), work->log_densities().end());
    };
    const Doubles at_once = run(1, 1 << 20);
    for (const double number : at_once) ASSERT_TRUE(std::isfinite(number));
    EXPECT_TRUE(run(1, 1) == at_once) << model_case.query_rows;
    EXPECT_TRUE(run(3, 1) == at_once) << model_case.query_rows;
    EXPECT_TRUE(run(3, 5) == at_once) << model_case.query_rows;
  }
}

// A density by teacher forcing in one pass and a decode with forced values are two computations of
// one quantity. The workspace holds the mixtures of so many components for a part of a round only.
TEST_F(DensityDeterminismTest, DecodeAndDensityAgreeOnMixturesOfManyComponents) {
  const ModelCase model_case = {.options = {.n_heads = 1, .n_kv_heads = 1, .num_components = 48},
                                .context_rows = 20,
                                .query_rows = 4,
                                .paths = 32};
  BackendDriver driver = NewDriver({.workspace_bytes = 150 << 10});
  const LoadedCase loaded(model_case, driver);
  const auto decode = loaded.DecodeForced();
  const auto density = loaded.Density(model_case.Values());
  driver.Run(decode.get());
  driver.Run(density.get());
  const double tolerance = under_test::DecodeTolerance();
  for (int64_t path = 0; path < model_case.paths; ++path) {
    for (int64_t position = 0; position < model_case.query_rows; ++position) {
      const MixtureSpan stepped = decode->mixture(path, position);
      const MixtureSpan forced = density->mixture(path, position);
      ExpectClose("mean", stepped.mean, forced.mean, tolerance);
      ExpectClose("std", stepped.std, forced.std, tolerance);
      ExpectClose("log weight", stepped.log_weight, forced.log_weight, tolerance);
    }
  }
}

}  // namespace
}  // namespace chorale
