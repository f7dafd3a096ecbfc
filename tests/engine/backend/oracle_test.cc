// The CPU backend against the float64 model of reference_forward.h, over shapes that the golden
// models do not have: fewer K/V heads than query heads, one target, one context row, odd sizes.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/backend/backend_driver.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/path_arrays.h"
#include "tests/engine/backend/reference_forward.h"
#include "tests/engine/backend/reference_row_encoder.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

constexpr double kTolerance = 2e-5;  // absolute, on numbers of the order of 1

struct NamedCase {
  std::string name;
  ModelCase model_case;
};

class OracleTest : public testing::TestWithParam<NamedCase> {
 protected:
  OracleTest()
      : model_(MakeTestModel(case_.options)),
        driver_(BackendDriver::Cpu(2)),
        loaded_(case_, driver_),
        context_(reference::EncodeContext(model_, case_.XContext(), case_.YContext())),
        targets_(
            reference::EncodeRows(model_, case_.XContext(), case_.YContext(), case_.XTarget())) {}

  void ExpectSameMixture(const std::string& what, const MixtureSpan& actual,
                         const reference::Mixture& expected) {
    ExpectClose(what + " mean", actual.mean, absl::MakeConstSpan(expected.mean), kTolerance);
    ExpectClose(what + " std", actual.std, absl::MakeConstSpan(expected.std), kTolerance);
    ExpectClose(what + " log weight", actual.log_weight, absl::MakeConstSpan(expected.log_weight),
                kTolerance);
  }

  // What the oracle says of every path with the case's values.
  std::vector<std::vector<reference::Mixture>> Expected(LoadedCase::Order order) const {
    const std::vector<float> values = case_.Values();
    const std::vector<int32_t> orders = case_.RandomOrders();
    const int64_t t = case_.targets;
    std::vector<std::vector<reference::Mixture>> expected;
    for (int64_t p = 0; p < case_.paths; ++p) {
      std::vector<int32_t> path_order;
      if (order == LoadedCase::Order::kRandom) {
        path_order.assign(orders.begin() + p * t, orders.begin() + (p + 1) * t);
      }
      expected.push_back(reference::TeacherForce(model_, context_, targets_, path_order,
                                                 SelectPaths(values, case_.paths, p, 1)));
    }
    return expected;
  }

  const ModelCase case_ = GetParam().model_case;
  const Model model_;
  BackendDriver driver_;
  const LoadedCase loaded_;
  const reference::KeyValues context_;
  const reference::Rows targets_;
};

TEST_P(OracleTest, Predict) {
  const std::vector<reference::Mixture> expected = reference::Predict(model_, context_, targets_);
  const std::unique_ptr<PredictWork> work = loaded_.Predict(0, case_.targets);
  driver_.Run(work.get());
  for (int64_t t = 0; t < case_.targets; ++t) {
    ExpectSameMixture("target " + std::to_string(t), work->mixture(t), expected[t]);
  }
}

TEST_P(OracleTest, Density) {
  for (LoadedCase::Order order : {LoadedCase::Order::kGiven, LoadedCase::Order::kRandom}) {
    const std::vector<std::vector<reference::Mixture>> expected = Expected(order);
    const std::vector<float> values = case_.Values();
    const std::unique_ptr<DensityWork> work = loaded_.Density(values, order);
    driver_.Run(work.get());
    std::vector<double> log_densities;
    for (int64_t t = 0; t < case_.targets; ++t) {
      for (int64_t p = 0; p < case_.paths; ++p) {
        const std::string what = "path " + std::to_string(p) + " position " + std::to_string(t);
        ExpectSameMixture(what, work->mixture(p, t), expected[p][t]);
        log_densities.push_back(reference::LogDensity(expected[p][t], values[t * case_.paths + p]));
      }
    }
    ExpectClose("log density", work->log_densities(), absl::MakeConstSpan(log_densities), 1e-4);
  }
}

TEST_P(OracleTest, DecodeOfGivenValues) {
  for (LoadedCase::Order order : {LoadedCase::Order::kGiven, LoadedCase::Order::kRandom}) {
    const std::vector<std::vector<reference::Mixture>> expected = Expected(order);
    const std::unique_ptr<DecodeWork> work = loaded_.DecodeForced(order);
    driver_.Run(work.get(), 2);
    EXPECT_EQ(work->steps_done(), case_.targets);
    const std::vector<float> values = case_.Values();
    EXPECT_EQ(work->values(), absl::MakeConstSpan(values));
    for (int64_t p = 0; p < case_.paths; ++p) {
      for (int64_t t = 0; t < case_.targets; ++t) {
        const std::string what = "path " + std::to_string(p) + " position " + std::to_string(t);
        ExpectSameMixture(what, work->mixture(p, t), expected[p][t]);
        EXPECT_NEAR(work->log_densities()[t * case_.paths + p],
                    reference::LogDensity(expected[p][t], values[t * case_.paths + p]), 1e-4)
            << what;
      }
    }
  }
}

std::vector<NamedCase> Cases() {
  TestModelOptions grouped = {.d_model = 64, .n_heads = 4, .n_kv_heads = 2, .seed = 2};
  TestModelOptions single = {.d_model = 32, .n_heads = 4, .n_kv_heads = 1, .seed = 3};
  TestModelOptions wide = {.d_model = 128,
                           .n_heads = 2,
                           .n_kv_heads = 2,
                           .n_layers = 1,
                           .d_ff = 40,
                           .num_components = 7,
                           .buffer_size = 2,
                           .seed = 4};
  TestModelOptions deep = {.n_layers = 5, .num_components = 1, .seed = 5};
  TestModelOptions cells = {.row_encoder = "cell_attention", .seed = 8};
  TestModelOptions widest = {.d_model = 128, .n_heads = 1, .n_kv_heads = 1, .seed = 6};
  return {{"MultiHead", {}},
          {"GroupedQuery", {.options = grouped, .context_rows = 70}},
          {"MultiQuery", {.options = single, .targets = 20, .paths = 32}},
          {"HeadOf64", {.options = wide, .targets = 40, .paths = 2}},
          {"HeadOf128", {.options = widest, .targets = 3}},
          {"Deep", {.options = deep}},
          {"OneTarget", {.targets = 1}},
          {"TwoTargets", {.targets = 2, .paths = 31}},
          {"OneContextRow", {.context_rows = 1}},
          {"OnePath", {.targets = 18, .paths = 1}},
          {"Cells", {.options = cells, .features = 4}},
          {"OneCell", {.options = cells, .context_rows = 1, .features = 1}},
          {"ManyCells", {.options = cells, .context_rows = 600, .targets = 60, .features = 11}},
          {"PanelPlusOne", {.context_rows = 65, .targets = 17, .paths = 3}}};
}

INSTANTIATE_TEST_SUITE_P(Shapes, OracleTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace chorale
