// Reduced contexts against their float64 definition (reference_memory.h), on each instruction set:
// the kept keys, values and weights, and what decodes, densities and predictions make of them.
//
// The heads must choose the same keys in float32 as in float64. That is only certain if no two
// numbers by which they choose are as close as rounding errors, so the tests use data for which
// this holds.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "engine/backend/cpu/context_layout.h"
#include "gtest/gtest.h"
#include "kernels/cpu/target.h"
#include "kernels/ops/panel_layout.h"
#include "tests/engine/backend/backend_driver.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/path_arrays.h"
#include "tests/engine/backend/reference_forward.h"
#include "tests/engine/backend/reference_memory.h"
#include "tests/engine/backend/reference_row_encoder.h"

namespace chorale {
namespace {

constexpr double kTolerance = 2e-4;  // absolute, every element
constexpr double kSufficientGap = 1e-5;
constexpr int kSeeds = 8;

struct MemoryCase {
  std::string name;
  ModelCase model_case;
};

ModelCase Case(MemoryPolicy policy, const std::string& row_encoder, int64_t rows = 1'290,
               int64_t keys = 67, const std::vector<int64_t>& append_starts = {}) {
  return {.options = {.row_encoder = row_encoder,
                      .d_model = 32,
                      .n_heads = 4,
                      .n_kv_heads = 2,
                      .n_layers = 3,
                      .d_ff = 40},
          .context_rows = rows,
          .query_rows = 6,
          .paths = 3,
          .features = 4,
          .memory = {.rows = keys, .policy = policy},
          .append_starts = append_starts};
}

ModelCase Appends(const std::string& row_encoder, int64_t rows,
                  const std::vector<int64_t>& append_starts) {
  return Case(MemoryPolicy::kMerge, row_encoder, rows, 67, append_starts);
}

// Many keys are near to each other, and rounding errors grow from layer to layer: a single layer,
// of one wide head.
ModelCase ManyKeys(int64_t rows, int64_t keys) {
  ModelCase many = Case(MemoryPolicy::kMerge, "feature_mean", rows, keys);
  many.options.n_heads = 1;
  many.options.n_kv_heads = 1;
  many.options.n_layers = 1;
  return many;
}

// A whole segment and a part of one; also a last segment of a single row, sets that a segment does
// not fill, and fewer keys than a cell has on average. Appends of one row, of many, and of more
// than a segment, also to rows that are not reduced alone.
std::vector<MemoryCase> Cases() {
  return {{"MergeMean", Case(MemoryPolicy::kMerge, "feature_mean")},
          {"MergeCells", Case(MemoryPolicy::kMerge, "cell_attention")},
          {"MergeOneRowLast", Case(MemoryPolicy::kMerge, "feature_mean", 1'025)},
          {"MergeHalf", ManyKeys(1'700, 1'100)},
          {"MergeAllButOne", ManyKeys(1'101, 1'100)},
          {"MergeOneCell", Case(MemoryPolicy::kMerge, "feature_mean", 100, 64)},
          {"AppendedRow", Appends("feature_mean", 131, {130})},
          {"AppendedRows", Appends("cell_attention", 190, {110})},
          {"Appends", Appends("cell_attention", 200, {100, 101, 160})},
          {"AppendsToFewRows", Appends("feature_mean", 150, {40, 66, 67, 68})},
          {"AppendedSegments", Appends("feature_mean", 1'200, {100})},
          {"AppendsToSegments", Appends("cell_attention", 1'290, {1'030, 1'270})},
          {"HeavyMean", Case(MemoryPolicy::kHeavy, "feature_mean")},
          {"HeavyCells", Case(MemoryPolicy::kHeavy, "cell_attention")},
          {"HeavyAllButOne", Case(MemoryPolicy::kHeavy, "feature_mean", 1'101, 1'100)},
          {"SampleMean", Case(MemoryPolicy::kSample, "feature_mean")},
          {"SampleCells", Case(MemoryPolicy::kSample, "cell_attention")}};
}

struct Oracle {
  ModelCase model_case;
  reference::ReducedContext context;
};

// The case with the first of kSeeds seeds for which the gap suffices. Computed once for all
// instruction sets.
const Oracle& OracleOf(const MemoryCase& each) {
  static auto* const oracles = new std::map<std::string, Oracle>;
  const auto found = oracles->find(each.name);
  if (found != oracles->end()) return found->second;
  Oracle& oracle = (*oracles)[each.name];
  ModelCase& c = oracle.model_case = each.model_case;
  const Model model = MakeTestModel(c.options);
  for (int i = 0; i < kSeeds && !(oracle.context.smallest_gap > kSufficientGap); ++i) {
    c.seed = each.model_case.seed + i;
    oracle.context = reference::EncodeReducedContext(model, c.XContext(), c.YContext(), c.memory,
                                                     c.seed, c.append_starts);
  }
  return oracle;
}

class MemoryOracleTest : public testing::TestWithParam<std::tuple<MemoryCase, std::string>> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(kernels::ForceSimdTargetForTest(std::get<1>(GetParam())));
    ASSERT_GT(oracle_.context.smallest_gap, kSufficientGap) << "for none of the seeds";
  }
  void TearDown() override { kernels::ForceSimdTargetForTest(""); }

  const Oracle& oracle_ = OracleOf(std::get<0>(GetParam()));
  const ModelCase& case_ = oracle_.model_case;
  const Model model_ = MakeTestModel(case_.options);
};

TEST_P(MemoryOracleTest, KeysValuesAndWeights) {
  const reference::KeyValues& expected = oracle_.context.kept;
  BackendDriver driver = BackendDriver::Cpu(2);
  const LoadedCase loaded(case_, driver, 1'000);
  const ResidentContext& context = *loaded.context();
  ASSERT_TRUE(context.shape.reduced());
  const ModelConfig& config = model_.config;
  const int64_t m = case_.memory.rows;
  const int64_t width = config.head_dim();
  const cpu::ContextLayout layout(config, context.shape);
  const auto* memory = reinterpret_cast<const float*>(driver.backend().ContextMemory(context.kv));
  for (int64_t l = 0; l < config.n_layers; ++l) {
    const cpu::ContextLayer<const float> layer = layout.Layer(memory, l);
    for (int64_t h = 0; h < config.n_kv_heads; ++h) {
      std::vector<double> keys, values, log_weights, all[3];
      const float* packed = layer.kv.keys + h * kernels::PackedKeysSize(m, width);
      for (int64_t j = 0; j < m; ++j) {
        for (int64_t d = 0; d < width; ++d) {
          keys.push_back(
              packed[((j / kernels::kPanel) * width + d) * kernels::kPanel + j % kernels::kPanel]);
          values.push_back(layer.kv.values[(h * m + j) * width + d]);
          all[0].push_back(expected.keys[l][j][h * width + d]);
          all[1].push_back(expected.values[l][j][h * width + d]);
        }
        log_weights.push_back(layer.log_weights[h * m + j]);
        all[2].push_back(expected.log_weights[l][j][h]);
      }
      const std::string where = " of layer " + std::to_string(l) + ", head " + std::to_string(h);
      const auto compare = [&](const std::string& what, const std::vector<double>& actual,
                               const std::vector<double>& expected_numbers) {
        ExpectClose(what + where, absl::MakeConstSpan(actual),
                    absl::MakeConstSpan(expected_numbers), kTolerance);
      };
      compare("keys", keys, all[0]);
      compare("values", values, all[1]);
      compare("log-weights", log_weights, all[2]);
    }
  }
}

TEST_P(MemoryOracleTest, DecodeDensityAndPrediction) {
  const reference::KeyValues& context = oracle_.context.kept;
  const ModelCase base = case_.Base();
  const reference::Rows query_rows =
      reference::EncodeRows(model_, base.XContext(), base.YContext(), case_.XTarget());
  BackendDriver driver = BackendDriver::Cpu(2);
  const LoadedCase loaded(case_, driver, 1'000);
  const std::vector<float> values = case_.Values();
  const auto predict = loaded.Predict(0, case_.query_rows);
  const auto density = loaded.Density(values);
  const auto decode = loaded.DecodeForced();
  driver.RunAll({predict.get(), density.get(), decode.get()}, 3);
  const std::vector<reference::Mixture> marginal = reference::Predict(model_, context, query_rows);
  for (int64_t t = 0; t < case_.query_rows; ++t) {
    ExpectMixtureClose("prediction", predict->mixture(t), marginal[t], kTolerance);
  }
  for (int64_t p = 0; p < case_.paths; ++p) {
    const std::vector<reference::Mixture> joint = reference::TeacherForce(
        model_, context, query_rows, {}, SelectPaths(values, case_.paths, p, 1));
    for (int64_t t = 0; t < case_.query_rows; ++t) {
      ExpectMixtureClose("density", density->mixture(p, t), joint[t], kTolerance);
      ExpectMixtureClose("decode", decode->mixture(p, t), joint[t], kTolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, MemoryOracleTest,
                         testing::Combine(testing::ValuesIn(Cases()),
                                          testing::ValuesIn(kernels::SimdTargetNames())),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace chorale
