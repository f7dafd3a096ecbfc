// Reduced contexts on the GPU backend. Operands are bfloat16, so the heads may choose other keys
// than in float64. The tests therefore compare with what holds for every choice: kept keys are
// those of rows, merging keeps sums, and later work agrees in float64 with the keys that are in
// memory. That each kernel chooses as defined is for the tests of the kernels.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/backend/flop_model.h"
#include "gtest/gtest.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/closeness.h"
#include "tests/engine/backend/cuda/encoded_context.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/path_arrays.h"
#include "tests/engine/backend/reference_forward.h"
#include "tests/engine/backend/reference_memory.h"
#include "tests/engine/backend/reference_row_encoder.h"

namespace chorale {
namespace {

struct Form {
  std::string name;
  TestModelOptions model;
};

std::vector<Form> Forms() {
  return {
      {"NarrowHeads", {.d_model = 32, .n_heads = 4, .n_kv_heads = 2, .n_layers = 2, .d_ff = 40}},
      {"HeadsOf32",
       {.row_encoder = "cell_attention",
        .d_model = 64,
        .n_heads = 2,
        .n_kv_heads = 2,
        .n_layers = 2,
        .d_ff = 40}},
      {"AllLayersInOneKernel", AllLayersModel(2)},
      {"Unfused", {.n_layers = 2, .d_ff = 4'160}},
  };
}

class CudaMemorySetTest : public under_test::BackendTest {
 protected:
  static ModelCase Case(const Form& form, int64_t rows, const MemorySet& memory,
                        const std::vector<int64_t>& append_starts = {}) {
    return {.options = form.model,
            .context_rows = rows,
            .query_rows = 6,
            .paths = 3,
            .features = 4,
            .memory = memory,
            .append_starts = append_starts};
  }
  static std::string BytesOf(const ModelCase& c, int64_t steps_per_slice,
                             const under_test::Resources& resources = {}) {
    BackendDriver driver = under_test::NewDriver(resources);
    const LoadedCase loaded(c, driver, steps_per_slice);
    return EncodedContext(driver, *loaded.context()).bytes();
  }
  static double Weight(const HeadKeys& keys) {
    double sum = 0;
    for (const float log_weight : keys.log_weights) sum += std::exp(double{log_weight});
    return sum;
  }
  static bool IsNear(const std::vector<float>& a, const std::vector<float>& b, double tolerance) {
    for (size_t d = 0; d < a.size(); ++d) {
      if (std::abs(a[d] - b[d]) > tolerance * (1 + std::abs(b[d]))) return false;
    }
    return true;
  }
  // Merging keeps the sum of weights, sampling does on average, and heavy hitters have weights
  // of 1.
  static void ExpectWeights(MemoryPolicy policy, const HeadKeys& keys, double rows) {
    const double weight = Weight(keys);
    if (policy == MemoryPolicy::kHeavy) {
      EXPECT_EQ(weight, static_cast<double>(keys.k.size()));
    } else {
      EXPECT_NEAR(weight / rows, 1, policy == MemoryPolicy::kMerge ? 1e-4 : 0.8);
    }
  }
  // The weighted sums of the elements of K, then of V.
  static std::vector<double> Sums(const HeadKeys& keys) {
    const size_t width = keys.k[0].size();
    std::vector<double> sums(2 * width);
    for (size_t key = 0; key < keys.k.size(); ++key) {
      const double w = keys.log_weights.empty() ? 1 : std::exp(double{keys.log_weights[key]});
      for (size_t d = 0; d < width; ++d) {
        sums[d] += w * keys.k[key][d];
        sums[width + d] += w * keys.v[key][d];
      }
    }
    return sums;
  }
};

// A table of one segment, whose rows attend to all rows: their K and V are those of the whole
// context. They have its bits in layer 0; later, the order of the rows changes that of sums.
TEST_F(CudaMemorySetTest, KeptKeysAreThoseOfRows) {
  for (const Form& form : Forms()) {
    for (const MemoryPolicy policy : {MemoryPolicy::kHeavy, MemoryPolicy::kSample}) {
      const int64_t kept = policy == MemoryPolicy::kHeavy ? 64 : 70;
      SCOPED_TRACE(form.name + ", " + MemoryPolicyName(policy));
      BackendDriver driver = under_test::NewDriver();
      const LoadedCase whole(Case(form, 100, {}), driver);
      const LoadedCase reduced(Case(form, 100, {.rows = kept, .policy = policy}), driver);
      EncodedContext rows(driver, *whole.context());
      EncodedContext set(driver, *reduced.context());
      for (int64_t layer = 0; layer < rows.config().n_layers; ++layer) {
        for (int64_t head = 0; head < rows.config().n_kv_heads; ++head) {
          const HeadKeys of_rows = rows.Head(layer, head);
          const HeadKeys of_set = set.Head(layer, head);
          std::set<size_t> same;  // rows
          int64_t near = 0;       // keys
          for (size_t key = 0; key < of_set.k.size(); ++key) {
            const auto is_row = [&](size_t row, double tolerance) {
              return IsNear(of_set.k[key], of_rows.k[row], tolerance) &&
                     IsNear(of_set.v[key], of_rows.v[row], tolerance);
            };
            bool is_near = false;
            for (size_t row = 0; row < of_rows.k.size(); ++row) {
              if (is_row(row, 0)) same.insert(row);
              is_near = is_near || is_row(row, 0.02);
            }
            near += is_near ? 1 : 0;
            EXPECT_GE(of_set.log_weights[key], -1e-6);
          }
          EXPECT_EQ(near, kept) << layer << " " << head;
          if (layer == 0) {
            EXPECT_EQ(same.size(), static_cast<size_t>(kept)) << head;
          }
          ExpectWeights(policy, of_set, 100);
        }
      }
    }
  }
}

TEST_F(CudaMemorySetTest, MergingKeepsSums) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name);
    BackendDriver driver = under_test::NewDriver();
    const LoadedCase whole(Case(form, 200, {}), driver);
    const LoadedCase reduced(Case(form, 200, {.rows = 70}), driver);
    EncodedContext rows(driver, *whole.context());
    EncodedContext set(driver, *reduced.context());
    for (int64_t layer = 0; layer < rows.config().n_layers; ++layer) {
      for (int64_t head = 0; head < rows.config().n_kv_heads; ++head) {
        const HeadKeys of_set = set.Head(layer, head);
        EXPECT_NEAR(Weight(of_set), 200, 1e-3);
        // Means are rounded to bf16.
        const std::vector<double> expected = Sums(rows.Head(layer, head));
        const std::vector<double> actual = Sums(of_set);
        ExpectClose("sums", absl::MakeConstSpan(actual), absl::MakeConstSpan(expected), 1.0);
      }
    }
  }
}

// Also to rows that are not reduced alone. In layer 0, K and V of a row do not depend on other
// rows, so that a whole context has them, too, if the row encoder needs no fit.
TEST_F(CudaMemorySetTest, AppendedRowsJoinTheSet) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name);
    const bool fitted = form.model.row_encoder == "cell_attention";
    const ModelCase c = Case(form, 70, {.rows = 17}, {fitted ? 30 : 10, 40, 41});
    const Model model = MakeTestModel(c.options);
    BackendDriver driver = under_test::NewDriver();
    const LoadedCase reduced(c, driver, 1'000);
    EncodedContext set(driver, *reduced.context());
    for (int64_t layer = 0; layer < model.config.n_layers; ++layer) {
      for (int64_t head = 0; head < model.config.n_kv_heads; ++head) {
        EXPECT_NEAR(Weight(set.Head(layer, head)), 70, 1e-3);
      }
    }
    if (!fitted) {
      const LoadedCase whole(Case(form, 70, {}), driver, 1'000);
      EncodedContext rows(driver, *whole.context());
      for (int64_t head = 0; head < model.config.n_kv_heads; ++head) {
        const std::vector<double> expected = Sums(rows.Head(0, head));
        const std::vector<double> actual = Sums(set.Head(0, head));
        ExpectClose("sums", absl::MakeConstSpan(actual), absl::MakeConstSpan(expected), 0.5);
      }
    }
    const ModelCase base = c.Base();
    const std::vector<reference::Mixture> expected = reference::Predict(
        model, set.Reference(),
        reference::EncodeRows(model, base.XContext(), base.YContext(), c.XTarget()));
    const auto predict = reduced.Predict(0, c.query_rows);
    driver.Run(predict.get());
    for (int64_t t = 0; t < c.query_rows; ++t) {
      ExpectMixtureClose("prediction", predict->mixture(t), expected[t],
                         under_test::ToleratedErrors().mixture);
    }
  }
}

// The most important keys are nearly the same as in float64.
TEST_F(CudaMemorySetTest, HeavyKeysAreMostlyThoseOfFloat64) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name);
    const ModelCase c = Case(form, 150, {.rows = 64, .policy = MemoryPolicy::kHeavy});
    const reference::KeyValues expected =
        reference::EncodeReducedContext(MakeTestModel(c.options), c.XContext(), c.YContext(),
                                        c.memory, c.seed)
            .kept;
    BackendDriver driver = under_test::NewDriver();
    const LoadedCase loaded(c, driver);
    EncodedContext set(driver, *loaded.context());
    const int64_t width = set.config().head_dim();
    for (int64_t layer = 0; layer < set.config().n_layers; ++layer) {
      for (int64_t head = 0; head < set.config().n_kv_heads; ++head) {
        const HeadKeys actual = set.Head(layer, head);
        int found = 0;
        for (const reference::Vector& row : expected.keys[layer]) {
          found += std::any_of(actual.k.begin(), actual.k.end(), [&](const auto& k) {
            for (int64_t d = 0; d < width; ++d) {
              if (std::abs(k[d] - row[head * width + d]) > 0.02 * (1 + std::abs(k[d])))
                return false;
            }
            return true;
          });
        }
        EXPECT_GE(found, 56) << "layer " << layer << ", head " << head;
      }
    }
  }
}

// Decodes, densities and predictions agree with float64 for the keys in memory. Several segments.
TEST_F(CudaMemorySetTest, LaterWorkAttendsToTheSet) {
  if (under_test::TooLargeForDevice(under_test::Size::kMedium)) {
    GTEST_SKIP() << "too large for the emulator";
  }
  for (const Form& form : Forms()) {
    for (const MemoryPolicy policy : kMemoryPolicies) {
      // Several segments only where that is fast; with MERGE, the first does not fill the set.
      const bool several = form.name == "NarrowHeads" && policy != MemoryPolicy::kHeavy;
      const int64_t kept = several && policy == MemoryPolicy::kMerge ? 1'090 : 70;
      const int64_t rows = several ? 1'030 + kept : 180;
      SCOPED_TRACE(form.name + ", " + MemoryPolicyName(policy));
      const ModelCase c = Case(form, rows, {.rows = kept, .policy = policy});
      const Model model = MakeTestModel(c.options);
      const reference::Rows query_rows =
          reference::EncodeRows(model, c.XContext(), c.YContext(), c.XTarget());
      BackendDriver driver = under_test::NewDriver();
      const LoadedCase loaded(c, driver, 1'000);
      EncodedContext set(driver, *loaded.context());
      const reference::KeyValues context = set.Reference();
      const std::vector<float> values = c.Values();
      const auto predict = loaded.Predict(0, c.query_rows);
      const auto density = loaded.Density(values);
      const auto decode = loaded.DecodeForced();
      driver.RunAll({predict.get(), density.get(), decode.get()}, 3);
      const double tolerance = under_test::ToleratedErrors().mixture;
      const auto marginal = reference::Predict(model, context, query_rows);
      for (int64_t t = 0; t < c.query_rows; ++t) {
        ExpectMixtureClose("prediction", predict->mixture(t), marginal[t], tolerance);
      }
      for (int64_t p = 0; p < c.paths; ++p) {
        const std::vector<reference::Mixture> joint = reference::TeacherForce(
            model, context, query_rows, {}, SelectPaths(values, c.paths, p, 1));
        for (int64_t t = 0; t < c.query_rows; ++t) {
          ExpectMixtureClose("density", density->mixture(p, t), joint[t], tolerance);
          ExpectMixtureClose("decode", decode->mixture(p, t), joint[t], tolerance);
        }
      }
      for (int64_t layer = 0; layer < model.config.n_layers; ++layer) {
        for (int64_t head = 0; head < model.config.n_kv_heads; ++head) {
          ExpectWeights(policy, set.Head(layer, head), static_cast<double>(rows));
        }
      }
    }
  }
}

TEST_F(CudaMemorySetTest, SlicesResourcesAndOtherWorkChangeNothing) {
  if (under_test::TooLargeForDevice(under_test::Size::kMedium)) {
    GTEST_SKIP() << "too large for the emulator";
  }
  for (const Form& form : Forms()) {
    for (const MemoryPolicy policy : kMemoryPolicies) {
      SCOPED_TRACE(form.name + ", " + MemoryPolicyName(policy));
      const ModelCase c = Case(form, 140, {.rows = 70, .policy = policy});
      const std::string expected = BytesOf(c, 1 << 20);
      EXPECT_TRUE(BytesOf(c, 1) == expected);
      EXPECT_TRUE(BytesOf(c, 7, {.workspace_bytes = 4 << 20}) == expected);
    }
  }
  std::vector<ModelCase> cases;
  for (const MemoryPolicy policy : kMemoryPolicies) {
    cases.push_back(Case(Forms()[1], 140, {.rows = 70, .policy = policy}));
  }
  cases.push_back(Case(Forms()[1], 100, {}));
  BackendDriver driver = under_test::NewDriver();
  std::vector<std::unique_ptr<EncodeWork>> works;
  std::vector<Work*> all;
  const auto model = driver.AddModel(MakeTestModel(Forms()[1].model));
  for (const ModelCase& c : cases) {
    works.push_back(driver.NewEncode(model, c.XContext(), c.YContext(), c.memory, c.seed));
    all.push_back(works.back().get());
  }
  driver.RunAll(all, 5);
  for (size_t i = 0; i < works.size(); ++i) {
    EXPECT_TRUE(EncodedContext(driver, works[i]->TakeContext()).bytes() == BytesOf(cases[i], 1'000))
        << i;
  }
}

// A set of as many keys as there are rows, or more, has the bits of no set.
TEST_F(CudaMemorySetTest, ASetOfAllRowsHasTheBitsOfNoSet) {
  const std::string expected = BytesOf(Case(Forms()[0], 100, {}), 1'000);
  for (const int64_t keys : {100, 5'000}) {
    EXPECT_TRUE(BytesOf(Case(Forms()[0], 100, {.rows = keys}), 1'000) == expected) << keys;
  }
}

// Step by step: the sum of the announced costs is the estimate, and steps that were announced to
// cost the same do.
TEST_F(CudaMemorySetTest, StepsCostWhatIsEstimated) {
  for (const MemoryPolicy policy : kMemoryPolicies) {
    SCOPED_TRACE(MemoryPolicyName(policy));
    const ModelCase c = Case(Forms()[0], 200, {.rows = 70, .policy = policy});
    BackendDriver driver = under_test::NewDriver();
    const auto work = driver.NewEncode(driver.AddModel(MakeTestModel(c.options)), c.XContext(),
                                       c.YContext(), c.memory, c.seed);
    const auto step = [&] {
      const Slice slice[] = {{.work = work.get(), .max_steps = 1}};
      ASSERT_TRUE(driver.backend().Advance(slice).ok());
    };
    step();  // the fit of the row encoder
    double flops = 0;
    double announced = 0;
    int64_t at_this_cost = 0;
    while (!work->done()) {
      if (at_this_cost > 0) {
        EXPECT_LE(work->next_step_flops(), announced * (1 + 1e-9));
      } else {
        announced = work->next_step_flops();
        at_this_cost = work->steps_at_this_cost();
        ASSERT_GE(at_this_cost, 1);
      }
      --at_this_cost;
      flops += work->next_step_flops();
      step();
    }
    EXPECT_EQ(at_this_cost, 0);
    EXPECT_EQ(work->steps_at_this_cost(), 0);
    EXPECT_EQ(work->next_step_flops(), 0);
    const ContextShape shape = {.rows = 200, .memory = c.memory};
    EXPECT_NEAR(flops / EncodeFlops(MakeTestModel(c.options).config, shape), 1, 1e-9);
  }
}

}  // namespace
}  // namespace chorale
