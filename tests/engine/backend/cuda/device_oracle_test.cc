// The GPU backend against the float64 model on the same device, at sizes at which a CPU takes too
// long: a long context, many paths, and models whose layers are in the unfused form; and the bits
// of such models. On a GPU only. Without libcublas and libcublasLt there is nothing to hold it to,
// and all is skipped.
#include "tests/engine/backend/cuda/device_oracle.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/require.h"
#include "engine/backend/cuda/backend.h"
#include "gtest/gtest.h"
#include "kernels/cuda/runtime/runtime.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/path_arrays.h"
#include "tests/engine/backend/reference_forward.h"
#include "tests/engine/backend/reference_row_encoder.h"
#include "tests/engine/backend/test_model.h"
#include "tests/engine/backend/work_results.h"
#include "tests/kernels/cuda/gemm/cublaslt_path.h"

namespace chorale {
namespace {

using device_oracle::DeviceOracle;
using reference::Mixture;
using Order = LoadedCase::Order;

constexpr int64_t kMany = 1'000;  // steps of a slice

// The file of libcublas. Empty: the loader is to find it.
std::string CublasPath() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment.
  const char* path = std::getenv("CHORALE_CUBLAS");
  return path == nullptr ? "" : path;
}

// Pools for the largest case here.
BackendDriver NewLargeDriver() {
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      cuda::NewBackend({.memory = {.context_pool_bytes = 1 << 30,
                                   .buffer_pool_bytes = int64_t{2} << 30,
                                   .encode_pool_bytes = 512 << 20,
                                   .weights_bytes = int64_t{2} << 30,
                                   .workspace_bytes = 1 << 30},
                        .cublaslt = CublasLtPath()});
  Require(backend.ok(), "the GPU backend can be made");
  return BackendDriver(*std::move(backend));
}

std::vector<int32_t> OrdersOf(const ModelCase& model_case, Order order) {
  return order == Order::kRandom ? model_case.RandomOrders() : std::vector<int32_t>();
}

// Holds results to float64 and prints the worst errors.
class Comparison {
 public:
  explicit Comparison(std::string name,
                      const under_test::Tolerances& bounds = under_test::ToleratedErrors())
      : name_(std::move(name)), bounds_(bounds) {}
  ~Comparison() {
    std::cout << name_ << ": worst error of a mixture " << worst_mixture_ << ", of a log-density "
              << worst_log_density_ << "\n";
  }
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  void Predictions(const PredictWork& work, const std::vector<Mixture>& expected) {
    for (size_t row = 0; row < expected.size(); ++row) {
      ExpectMixture(absl::StrCat("query row ", row), work.mixture(static_cast<int64_t>(row)),
                    expected[row]);
    }
  }

  // Of paths [first, first + paths) of the case. `expected`: [all paths, T].
  void Densities(const DensityWork& work, const ModelCase& model_case, int64_t first, int64_t paths,
                 const std::vector<Mixture>& expected) {
    const std::vector<float> values =
        SelectPaths(model_case.Values(), model_case.paths, first, paths);
    std::vector<double> log_densities(values.size());
    for (int64_t p = 0; p < paths; ++p) {
      for (int64_t t = 0; t < model_case.query_rows; ++t) {
        const Mixture& mixture = expected[(first + p) * model_case.query_rows + t];
        ExpectMixture(absl::StrCat("path ", first + p, " position ", t), work.mixture(p, t),
                      mixture);
        log_densities[t * paths + p] = reference::LogDensity(mixture, values[t * paths + p]);
      }
    }
    const Worst worst = ExpectClose("log density", work.log_densities(),
                                    absl::MakeConstSpan(log_densities), bounds_.log_density);
    worst_log_density_ = std::max(worst_log_density_, worst.error);
  }

 private:
  void ExpectMixture(const std::string& what, const MixtureSpan& actual, const Mixture& expected) {
    worst_mixture_ =
        std::max(worst_mixture_, ExpectMixtureClose(what, actual, expected, bounds_.mixture));
  }

  const std::string name_;
  const under_test::Tolerances bounds_;
  double worst_mixture_ = 0;
  double worst_log_density_ = 0;
};

class DeviceOracleTest : public under_test::BackendTest {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (IsSkipped()) return;
    absl::StatusOr<std::shared_ptr<const device_oracle::Cublas>> cublas =
        device_oracle::OpenCublas(CublasPath(), CublasLtPath());
    if (!cublas.ok()) GTEST_SKIP() << cublas.status();
    cublas_ = *std::move(cublas);
    kernels::cuda::DeviceProperties properties;
    ASSERT_EQ(kernels::cuda::OpenDevice(&properties), 0);
  }

  // With the context of the case.
  std::unique_ptr<DeviceOracle> NewOracle(const ModelCase& model_case) const {
    auto oracle = std::make_unique<DeviceOracle>(MakeTestModel(model_case.options), cublas_);
    oracle->EncodeContext(model_case.XContext(), model_case.YContext());
    return oracle;
  }

  // Densities of all paths of the case, together.
  static void HoldDensities(const LoadedCase& loaded, BackendDriver& driver, DeviceOracle& oracle,
                            Order order, Comparison& comparison) {
    const ModelCase& model_case = loaded.model_case();
    const std::vector<float> values = model_case.Values();
    const std::vector<Mixture> expected = oracle.TeacherForce(
        model_case.XTarget(), OrdersOf(model_case, order), values, model_case.paths);
    const int64_t most =
        driver.backend().density_paths(loaded.context()->model->config(), model_case.query_rows);
    std::vector<std::unique_ptr<DensityWork>> densities;
    std::vector<Work*> works;
    for (int64_t first = 0; first < model_case.paths; first += most) {
      const int64_t paths = std::min(most, model_case.paths - first);
      densities.push_back(driver.NewDensity(loaded.Tile(first, paths, order),
                                            SelectPaths(values, model_case.paths, first, paths)));
      works.push_back(densities.back().get());
    }
    driver.RunAll(works, kMany);
    for (size_t i = 0; i < densities.size(); ++i) {
      const int64_t first = static_cast<int64_t>(i) * most;
      comparison.Densities(*densities[i], model_case, first,
                           std::min(most, model_case.paths - first), expected);
    }
  }

  static void HoldPredictions(const LoadedCase& loaded, BackendDriver& driver, DeviceOracle& oracle,
                              Comparison& comparison) {
    const std::unique_ptr<PredictWork> work = loaded.Predict(0, loaded.model_case().query_rows);
    driver.Run(work.get());
    comparison.Predictions(*work, oracle.Predict(loaded.model_case().XTarget()));
  }

  std::shared_ptr<const device_oracle::Cublas> cublas_;
};

// ---- The oracle itself ----------------------------------------------------------------------

void ExpectSame(const Mixture& actual, const Mixture& expected) {
  constexpr double kRounding = 1e-9;
  ExpectMixtureClose("the oracle", actual, expected, kRounding);
}

TEST_F(DeviceOracleTest, IsTheReference) {
  const ModelCase model_case = {
      .options = {.d_model = 64, .n_heads = 4, .n_kv_heads = 2, .n_layers = 3, .buffer_size = 4},
      .context_rows = 70,
      .query_rows = 6,
      .paths = 3};
  const Model model = MakeTestModel(model_case.options);
  const FeatureMatrix x = model_case.XContext();
  const std::vector<float> y = model_case.YContext();
  const reference::KeyValues context = reference::EncodeContext(model, x, y);
  const reference::Rows query_rows = reference::EncodeRows(model, x, y, model_case.XTarget());
  const auto oracle = NewOracle(model_case);

  const std::vector<Mixture> predicted = oracle->Predict(model_case.XTarget());
  const std::vector<Mixture> expected = reference::Predict(model, context, query_rows);
  ASSERT_EQ(predicted.size(), expected.size());
  for (size_t t = 0; t < expected.size(); ++t) ExpectSame(predicted[t], expected[t]);

  const std::vector<float> values = model_case.Values();
  for (const Order order : {Order::kGiven, Order::kRandom}) {
    const std::vector<int32_t> orders = OrdersOf(model_case, order);
    const std::vector<Mixture> forced =
        oracle->TeacherForce(model_case.XTarget(), orders, values, model_case.paths);
    ASSERT_EQ(forced.size(), static_cast<size_t>(model_case.paths * model_case.query_rows));
    for (int64_t p = 0; p < model_case.paths; ++p) {
      const int64_t first = p * model_case.query_rows;
      std::vector<int32_t> of_path;
      if (order == Order::kRandom) {
        of_path.assign(orders.begin() + first, orders.begin() + first + model_case.query_rows);
      }
      const std::vector<Mixture> path = reference::TeacherForce(
          model, context, query_rows, of_path, SelectPaths(values, model_case.paths, p, 1));
      for (int64_t t = 0; t < model_case.query_rows; ++t) ExpectSame(forced[first + t], path[t]);
    }
  }
}

// ---- Sizes ----------------------------------------------------------------------------------

// Twelve layers lose more than the few of the suite's models: as there, about twice the worst error
// that was measured.
constexpr under_test::Tolerances kTwelveNarrowLayers = {.mixture = 0.06, .log_density = 0.02};
constexpr under_test::Tolerances kTwelveWideLayers = {.mixture = 0.04, .log_density = 0.04};

TEST_F(DeviceOracleTest, PredictionsFromALongContext) {
  const ModelCase model_case = {
      .options = {.d_model = 128, .n_layers = 12, .d_ff = 256, .num_components = 20},
      .context_rows = 65'536,
      .query_rows = 64,
      .paths = 1};
  Comparison comparison("context of 65,536 rows", kTwelveNarrowLayers);
  const auto oracle = NewOracle(model_case);
  BackendDriver driver = NewLargeDriver();
  const LoadedCase loaded(model_case, driver, kMany);
  HoldPredictions(loaded, driver, *oracle, comparison);
}

TEST_F(DeviceOracleTest, DensitiesOfManyPaths) {
  const ModelCase model_case = {
      .options = {.d_model = 128, .n_layers = 12, .d_ff = 256, .num_components = 20},
      .context_rows = 1'024,
      .query_rows = 8,
      .paths = 4'096};
  Comparison comparison("density of 4,096 paths", kTwelveNarrowLayers);
  const auto oracle = NewOracle(model_case);
  BackendDriver driver = NewLargeDriver();
  const LoadedCase loaded(model_case, driver, kMany);
  HoldDensities(loaded, driver, *oracle, Order::kRandom, comparison);
}

TEST_F(DeviceOracleTest, DensitiesOfWholePaths) {
  for (const int64_t query_rows : {8, 32}) {
    const ModelCase model_case = {.options = {.d_model = 128,
                                              .n_heads = 2,
                                              .n_kv_heads = 2,
                                              .n_layers = 12,
                                              .d_ff = 256,
                                              .num_components = 20},
                                  .context_rows = 1'024,
                                  .query_rows = query_rows,
                                  .paths = 1'000};
    Comparison comparison(absl::StrCat("density of 1,000 whole paths of ", query_rows, " values"),
                          kTwelveNarrowLayers);
    const auto oracle = NewOracle(model_case);
    BackendDriver driver = NewLargeDriver();
    const LoadedCase loaded(model_case, driver, kMany);
    HoldDensities(loaded, driver, *oracle, Order::kRandom, comparison);
  }
}

// ---- The unfused form -----------------------------------------------------------------------

class WideOracleTest : public DeviceOracleTest, public testing::WithParamInterface<int64_t> {
 protected:
  static TestModelOptions Options(int64_t layers) {
    TestModelOptions options = {.name = "wide"};
    options.d_model = GetParam();
    options.n_heads = options.n_kv_heads = GetParam() / 64;
    options.n_layers = layers;
    options.d_ff = 4 * GetParam();
    options.num_components = 20;
    return options;
  }
};

// The largest width has few layers: twelve would have 1.4 GB of weights.
TEST_P(WideOracleTest, MixturesAndLogDensities) {
  const bool twelve = GetParam() < 2'048;
  const ModelCase model_case = {
      .options = Options(twelve ? 12 : 2), .context_rows = 1'024, .query_rows = 8, .paths = 32};
  Comparison comparison(absl::StrCat("d_model ", GetParam()),
                        twelve ? kTwelveWideLayers : under_test::ToleratedErrors());
  const auto oracle = NewOracle(model_case);
  BackendDriver driver = NewLargeDriver();
  const LoadedCase loaded(model_case, driver, kMany);
  HoldPredictions(loaded, driver, *oracle, comparison);
  for (const Order order : {Order::kGiven, Order::kRandom}) {
    HoldDensities(loaded, driver, *oracle, order, comparison);
    // Step by step as in one pass.
    const auto decode = loaded.DecodeForced(order);
    const auto density = loaded.Density(model_case.Values(), order);
    driver.RunAll({decode.get(), density.get()}, kMany);
    ExpectClose("decode", decode->log_densities(), density->log_densities(),
                under_test::DecodeTolerance());
  }
}

// The context's rows go through a layer in several launches.
TEST_P(WideOracleTest, PredictionsFromALongContext) {
  const ModelCase model_case = {
      .options = Options(2), .context_rows = 20'000, .query_rows = 64, .paths = 1};
  Comparison comparison(absl::StrCat("d_model ", GetParam(), ", context of 20,000 rows"));
  const auto oracle = NewOracle(model_case);
  BackendDriver driver = NewLargeDriver();
  const LoadedCase loaded(model_case, driver, kMany);
  HoldPredictions(loaded, driver, *oracle, comparison);
}

// Decodes with the same model, which share every launch: of other contexts, numbers of query rows
// and numbers of paths.
class OtherDecodes {
 public:
  OtherDecodes(const LoadedCase& loaded, BackendDriver& driver, int64_t count) {
    constexpr int64_t kContextRows[] = {1, 70, 333, 1'025};
    constexpr int64_t kQueryRows[] = {8, 1, 13, 4};
    std::vector<TileSpec> tiles;
    for (int i = 0; i < 4; ++i) {
      const ModelCase other = {.context_rows = kContextRows[i],
                               .query_rows = kQueryRows[i],
                               .seed = 100 + static_cast<uint64_t>(i)};
      TileSpec tile;
      tile.context =
          driver.Encode(loaded.context()->model, other.XContext(), other.YContext(), kMany);
      tile.query_rows = driver.EncodeRows(tile.context, other.XTarget());
      tiles.push_back(std::move(tile));
    }
    for (int64_t i = 0; i < count; ++i) {
      TileSpec tile = tiles[i % 4];
      tile.paths = 1 + i * 7 % 32;
      decodes_.push_back(driver.NewDecode(std::move(tile), /*seed=*/i, /*first_path=*/0, {}));
    }
  }

  std::vector<Work*> works() const {
    std::vector<Work*> works;
    for (const std::unique_ptr<DecodeWork>& decode : decodes_) works.push_back(decode.get());
    return works;
  }

 private:
  std::vector<std::unique_ptr<DecodeWork>> decodes_;
};

TEST_P(WideOracleTest, TheSameBitsAloneInASecondBackendAndBesideOthers) {
  const ModelCase model_case = {
      .options = Options(2), .context_rows = 150, .query_rows = 5, .paths = 9};
  const auto run = [&](int64_t others) {
    BackendDriver driver = NewLargeDriver();
    const LoadedCase loaded(model_case, driver, kMany);
    const OtherDecodes other(loaded, driver, others);
    const auto decode = loaded.DecodeDrawn(0, model_case.paths, Order::kRandom);
    const auto density = loaded.Density(model_case.Values(), Order::kRandom);
    const auto predict = loaded.Predict(0, model_case.query_rows);
    std::vector<Work*> works = other.works();
    if (others == 0) {
      for (Work* work : {static_cast<Work*>(decode.get()), static_cast<Work*>(density.get()),
                         static_cast<Work*>(predict.get())}) {
        driver.Run(work);
      }
    } else {
      works.insert(works.begin() + others / 2, {decode.get(), density.get(), predict.get()});
      driver.RunAll(works, 3);
    }
    return WorkResults(*decode, *density, *predict, model_case.query_rows);
  };
  const WorkResults alone = run(0);
  ASSERT_EQ(alone.values.size(), static_cast<size_t>(model_case.paths * model_case.query_rows));
  for (const double value : alone.values) ASSERT_TRUE(std::isfinite(value));
  EXPECT_NE(alone.values[0], alone.values[1]);
  EXPECT_TRUE(run(0) == alone) << "in a second backend";
  for (const int64_t others : {1, 7, 64}) {
    EXPECT_TRUE(run(others) == alone) << "beside " << others << " decodes";
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, WideOracleTest, testing::Values(768, 1'024, 2'048),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace chorale
