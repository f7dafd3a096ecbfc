// A backend against the float64 model of reference_forward.h, over shapes that the golden models do
// not have: fewer K/V heads than query heads, one query row, one context row, appended rows, odd
// sizes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/path_arrays.h"
#include "tests/engine/backend/reference_forward.h"
#include "tests/engine/backend/reference_row_encoder.h"
#include "tests/engine/backend/test_model.h"

namespace chorale {
namespace {

using under_test::Size;
using Order = LoadedCase::Order;

struct NamedCase {
  std::string name;
  ModelCase model_case;
  Size size = Size::kSmall;
  // Values far out in the tails, where an error of a mean counts for more.
  double log_density_factor = 1;
  under_test::Resources resources = {};
};

class OracleTest : public under_test::BackendTest, public testing::WithParamInterface<NamedCase> {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (IsSkipped()) return;
    if (under_test::TooLargeForDevice(GetParam().size)) {
      GTEST_SKIP() << "too large for the emulator";
    }
    driver_.emplace(under_test::NewDriver(GetParam().resources));
    if (!case_.append_starts.empty() && !driver_->backend().appends()) {
      GTEST_SKIP() << "no rows can be appended";
    }
    model_ = MakeTestModel(case_.options);
    context_ =
        reference::EncodeContext(model_, case_.XContext(), case_.YContext(), case_.append_starts);
    const ModelCase base = case_.Base();
    query_rows_ = reference::EncodeRows(model_, base.XContext(), base.YContext(), case_.XTarget());
    loaded_.emplace(case_, *driver_);
  }

  void TearDown() override {
    if (IsSkipped()) return;
    std::cout << GetParam().name << ": worst error of a mixture " << worst_mixture_
              << ", of a log-density " << worst_log_density_ << "\n";
  }

  void ExpectSameMixture(const std::string& what, const MixtureSpan& actual,
                         const reference::Mixture& expected) {
    worst_mixture_ =
        std::max(worst_mixture_, ExpectMixtureClose(what, actual, expected, tolerances_.mixture));
  }

  // Of a density or of a decode with the case's values, with its mixtures.
  template <typename PathWork>
  void ExpectPaths(const PathWork& work, Order order) {
    const std::vector<float> values = case_.Values();
    const std::vector<int32_t> orders = case_.RandomOrders();
    const int64_t t = case_.query_rows;
    std::vector<double> log_densities(values.size());
    for (int64_t p = 0; p < case_.paths; ++p) {
      std::vector<int32_t> path_order;
      if (order == Order::kRandom) {
        path_order.assign(orders.begin() + p * t, orders.begin() + (p + 1) * t);
      }
      const std::vector<reference::Mixture> expected = reference::TeacherForce(
          model_, context_, query_rows_, path_order, SelectPaths(values, case_.paths, p, 1));
      for (int64_t position = 0; position < t; ++position) {
        ExpectSameMixture("path " + std::to_string(p) + " position " + std::to_string(position),
                          work.mixture(p, position), expected[position]);
        const int64_t at = position * case_.paths + p;
        log_densities[at] = reference::LogDensity(expected[position], values[at]);
      }
    }
    const Worst worst =
        ExpectClose("log density", work.log_densities(), absl::MakeConstSpan(log_densities),
                    tolerances_.log_density * GetParam().log_density_factor);
    worst_log_density_ = std::max(worst_log_density_, worst.error);
  }

  const ModelCase case_ = GetParam().model_case;
  const under_test::Tolerances tolerances_ = under_test::ToleratedErrors();
  double worst_mixture_ = 0;
  double worst_log_density_ = 0;
  Model model_;
  reference::KeyValues context_;
  reference::Rows query_rows_;
  std::optional<BackendDriver> driver_;
  std::optional<LoadedCase> loaded_;
};

TEST_P(OracleTest, Predict) {
  const std::vector<reference::Mixture> expected =
      reference::Predict(model_, context_, query_rows_);
  const std::unique_ptr<PredictWork> work = loaded_->Predict(0, case_.query_rows);
  driver_->Run(work.get());
  for (int64_t t = 0; t < case_.query_rows; ++t) {
    ExpectSameMixture("query row " + std::to_string(t), work->mixture(t), expected[t]);
  }
}

// Both compute the same quantity: teacher forcing in one pass, and step by step.
TEST_P(OracleTest, DensityAndDecodeOfForcedValues) {
  const std::vector<float> values = case_.Values();
  for (const Order order : {Order::kGiven, Order::kRandom}) {
    const std::unique_ptr<DensityWork> density = loaded_->Density(values, order);
    const std::unique_ptr<DecodeWork> decode = loaded_->DecodeForced(order);
    driver_->RunAll({density.get(), decode.get()}, 2);
    EXPECT_EQ(decode->steps_done(), case_.query_rows);
    EXPECT_EQ(decode->values(), absl::MakeConstSpan(values));
    ExpectPaths(*density, order);
    ExpectClose("decode", decode->log_densities(), density->log_densities(),
                under_test::DecodeTolerance());
    for (int64_t p = 0; p < case_.paths; ++p) {
      for (int64_t t = 0; t < case_.query_rows; ++t) {
        const MixtureSpan stepped = decode->mixture(p, t);
        const MixtureSpan forced = density->mixture(p, t);
        ExpectMixtureClose("step by step", stepped, forced, under_test::DecodeTolerance());
      }
    }
  }
}

std::vector<NamedCase> Cases() {
  const TestModelOptions grouped = {.d_model = 64, .n_heads = 4, .n_kv_heads = 2, .seed = 2};
  const TestModelOptions single = {.d_model = 32, .n_heads = 4, .n_kv_heads = 1, .seed = 3};
  const TestModelOptions wide = {.d_model = 128,
                                 .n_heads = 2,
                                 .n_kv_heads = 2,
                                 .n_layers = 1,
                                 .d_ff = 40,
                                 .num_components = 7,
                                 .buffer_size = 2,
                                 .seed = 4};
  const TestModelOptions widest = {.d_model = 128, .n_heads = 1, .n_kv_heads = 1, .seed = 6};
  const TestModelOptions five_heads = {.d_model = 160,
                                       .n_heads = 5,
                                       .n_kv_heads = 1,
                                       .n_layers = 1,
                                       .d_ff = 200,
                                       .num_components = 40};
  const TestModelOptions deep = {.n_layers = 5, .num_components = 1, .seed = 5};
  const TestModelOptions cell_attention = {.row_encoder = "cell_attention", .seed = 8};
  // Of the unfused form on a GPU: by the hidden layer, whose size is no multiple of anything, and
  // by D.
  const TestModelOptions many_hidden = {.n_heads = 2, .n_kv_heads = 1, .d_ff = 4'099, .seed = 9};
  const TestModelOptions unfused_rows = {
      .d_model = 576, .n_heads = 9, .n_kv_heads = 3, .n_layers = 1, .d_ff = 72, .seed = 10};
  TestModelOptions many_hidden_cells = cell_attention;
  many_hidden_cells.d_ff = 4'099;
  const TestModelOptions wide_cells = {.row_encoder = "cell_attention", .d_model = 64};
  return {
      {"MultiHead", {}},
      {"OneLayer", {.options = {.n_layers = 1}}},
      {"GroupedQuery", {.options = grouped, .context_rows = 70}},
      {"MultiQuery", {.options = single, .query_rows = 20, .paths = 32}, Size::kLarge},
      {"MultiQueryOf16",
       {.options = {.d_model = 64, .n_heads = 4, .n_kv_heads = 1, .n_layers = 3}, .query_rows = 6}},
      {"HeadOf64", {.options = wide, .query_rows = 40, .paths = 2}, Size::kLarge},
      // The density computes layer by layer: it has fewer positions than tiles of whole paths.
      {"AllLayers",
       {.options = AllLayersModel(2), .context_rows = 40, .query_rows = 3, .paths = 3},
       Size::kSmall,
       1,
       {.any_tiles_in_all_layers = true}},
      {"HeadOf128", {.options = widest, .query_rows = 3}},
      {"FiveHeads", {.options = five_heads, .context_rows = 70, .query_rows = 3}},
      {"Deep", {.options = deep}, Size::kLarge},
      {"OneTarget", {.query_rows = 1, .paths = 3}},
      {"TwoTargets", {.query_rows = 2, .paths = 31}},
      {"OneContextRow", {.context_rows = 1, .query_rows = 4}},
      {"OnePath", {.query_rows = 18, .paths = 1}},
      {"FullTile", {.options = {.n_layers = 1}, .query_rows = 5, .paths = 32}},
      {"SplitKv", {.options = {.n_layers = 1}, .context_rows = 600, .query_rows = 3, .paths = 9}},
      {"Cells", {.options = cell_attention, .features = 4}},
      {"WideCells", {.options = wide_cells, .query_rows = 5, .features = 6}},
      {"OneCell", {.options = cell_attention, .context_rows = 1, .features = 1}, Size::kSmall, 2},
      {"ManyHidden", {.options = many_hidden, .context_rows = 70, .query_rows = 5, .paths = 9}},
      {"ManyHiddenSplitKv",
       {.options = many_hidden, .context_rows = 600, .query_rows = 3},
       Size::kLarge},
      {"WideRows", {.options = unfused_rows, .context_rows = 70, .query_rows = 2, .paths = 3}},
      {"ManyHiddenCells",
       {.options = many_hidden_cells, .query_rows = 3, .features = 4},
       Size::kLarge},
      {"PanelPlusOne", {.context_rows = 65, .query_rows = 17, .paths = 3}, Size::kLarge},
      {"ManyCells",
       {.options = cell_attention, .context_rows = 600, .query_rows = 60, .features = 11},
       Size::kLarge},
      {"AppendedRow", {.context_rows = 22, .append_starts = {21}}},
      {"AppendedToARow", {.context_rows = 4, .append_starts = {1}}},
      {"AppendedPanel", {.options = grouped, .context_rows = 37, .append_starts = {21}}},
      {"AppendedToPanels",
       {.options = single, .context_rows = 80, .query_rows = 4, .append_starts = {32, 64}}},
      {"AppendedKeyBlock",
       {.options = grouped, .context_rows = 321, .query_rows = 3, .append_starts = {150}}},
      {"Appends",
       {.options = deep, .context_rows = 79, .append_starts = {21, 22, 23, 39, 41, 78}},
       Size::kLarge},
      {"AppendedCells",
       {.options = cell_attention, .context_rows = 60, .features = 4, .append_starts = {37}}},
      {"AppendsOfCells",
       {.options = wide_cells,
        .context_rows = 60,
        .query_rows = 5,
        .features = 6,
        .append_starts = {17, 18, 34}}},
      {"AppendedHeadOf32",
       {.options = {.d_model = 64, .n_heads = 2, .n_kv_heads = 1},
        .context_rows = 90,
        .query_rows = 3,
        .append_starts = {40, 70}}},
      {"AppendedHeadOf64",
       {.options = AllLayersModel(2),
        .context_rows = 90,
        .query_rows = 3,
        .append_starts = {40, 70}}},
      {"AppendedHeadOf128",
       {.options = widest, .context_rows = 90, .query_rows = 3, .append_starts = {40, 70}}},
      {"AppendedManyHidden",
       {.options = many_hidden, .context_rows = 90, .query_rows = 3, .append_starts = {40, 71}}},
      {"AppendedManyHiddenCells",
       {.options = many_hidden_cells,
        .context_rows = 40,
        .query_rows = 2,
        .features = 4,
        .append_starts = {20, 31}},
       Size::kLarge},
      {"AppendedWideRows",
       {.options = unfused_rows,
        .context_rows = 75,
        .query_rows = 2,
        .paths = 3,
        .append_starts = {70}},
       Size::kLarge},
      {"AppendedCellToOne",
       {.options = cell_attention, .context_rows = 3, .features = 1, .append_starts = {1, 2}},
       Size::kSmall,
       2}};
}

INSTANTIATE_TEST_SUITE_P(Shapes, OracleTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace chorale
