// The GPU backend against the float64 model, over shapes that the golden models do not have.
//
// Operands are bfloat16: of a sum of products about 2^-9 of its size is lost, in every layer. The
// bounds were found by measuring and are about twice the worst that was seen.
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/cuda/cuda_case.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/path_arrays.h"
#include "tests/engine/backend/reference_forward.h"
#include "tests/engine/backend/reference_row_encoder.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

constexpr double kMixture = 0.02;
constexpr double kLogDensity = 0.07;

struct NamedCase {
  std::string name;
  ModelCase model_case;
};

std::vector<NamedCase> Cases() {
  return {
      {"usual", {}},
      {"one_target", {.targets = 1, .paths = 3}},
      {"one_context_row", {.context_rows = 1, .targets = 4}},
      {"one_path", {.targets = 3, .paths = 1}},
      {"full_tile", {.options = {.n_layers = 1}, .targets = 5, .paths = 32}},
      {"shared_keys",
       {.options = {.d_model = 64, .n_heads = 4, .n_kv_heads = 1, .n_layers = 3}, .targets = 6}},
      {"wide",
       {.options = {.d_model = 160,
                    .n_heads = 5,
                    .n_kv_heads = 1,
                    .n_layers = 1,
                    .d_ff = 200,
                    .num_components = 40},
        .context_rows = 70,
        .targets = 3}},
      {"chunks", {.options = {.n_layers = 1}, .context_rows = 600, .targets = 3, .paths = 9}},
      {"one_layer", {.options = {.n_layers = 1}}},
      {"cells",
       {.options = {.row_encoder = "cell_attention", .d_model = 64}, .targets = 5, .features = 6}},
  };
}

class CudaOracleTest : public CudaTest, public testing::WithParamInterface<NamedCase> {
 protected:
  struct WorstErrors {
    double mixture = 0;
    double density = 0;
  };

  static void Compare(const MixtureSpan& actual, const reference::Mixture& expected,
                      WorstErrors& worst) {
    for (const Worst& part :
         {ExpectClose("mean", actual.mean, absl::MakeConstSpan(expected.mean), kMixture),
          ExpectClose("std", actual.std, absl::MakeConstSpan(expected.std), kMixture),
          ExpectClose("log weight", actual.log_weight, absl::MakeConstSpan(expected.log_weight),
                      kMixture)}) {
      worst.mixture = std::max(worst.mixture, part.error);
    }
  }
};

TEST_P(CudaOracleTest, PredictionsDensitiesAndDecode) {
  const ModelCase model_case = GetParam().model_case;
  const Model model = MakeTestModel(model_case.options);
  const reference::KeyValues context =
      reference::EncodeContext(model, model_case.XContext(), model_case.YContext());
  const reference::Rows targets = reference::EncodeRows(
      model, model_case.XContext(), model_case.YContext(), model_case.XTarget());
  BackendDriver driver = Driver();
  const LoadedCase loaded(model_case, driver);
  WorstErrors worst;

  const auto predict = loaded.Predict(0, model_case.targets);
  driver.Run(predict.get());
  const std::vector<reference::Mixture> points = reference::Predict(model, context, targets);
  for (int64_t row = 0; row < model_case.targets; ++row) {
    Compare(predict->mixture(row), points[row], worst);
  }

  const std::vector<float> values = model_case.Values();
  const std::vector<int32_t> orders = model_case.RandomOrders();
  const int64_t t = model_case.targets;
  TileSpec tile = loaded.Tile(LoadedCase::Order::kRandom);
  tile.keep_mixtures = true;
  const auto density = driver.NewDensity(tile, values);
  const auto decode = driver.NewDecode(tile, 1, 0, values);
  driver.RunAll({density.get(), decode.get()}, 2);
  for (int64_t p = 0; p < model_case.paths; ++p) {
    const std::vector<reference::Mixture> expected = reference::TeacherForce(
        model, context, targets,
        std::vector<int32_t>(orders.begin() + p * t, orders.begin() + (p + 1) * t),
        SelectPaths(values, model_case.paths, p, 1));
    for (int64_t position = 0; position < t; ++position) {
      Compare(density->mixture(p, position), expected[position], worst);
      const int64_t at = position * model_case.paths + p;
      const double exact = reference::LogDensity(expected[position], values[at]);
      const double actual = density->log_densities()[at];
      EXPECT_NEAR(actual, exact, kLogDensity) << p << " " << position;
      worst.density = std::max(worst.density, std::abs(actual - exact));
    }
  }
  EXPECT_EQ(decode->log_densities(), density->log_densities()) << "step by step";
  std::cout << GetParam().name << ": worst error of a mixture " << worst.mixture
            << ", of a log-density " << worst.density << "\n";
}

INSTANTIATE_TEST_SUITE_P(, CudaOracleTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace chorale
