// Contexts with appended rows: the same bits whatever part of the context was resident before, with
// any resources, in any slicing, and next to any other work.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/encode_blocks.h"
#include "gtest/gtest.h"
#include "tests/engine/backend/backend_under_test.h"
#include "tests/engine/backend/model_case.h"
#include "tests/engine/backend/work_results.h"

namespace chorale {
namespace {

using under_test::NewDriver;
using under_test::Resources;
using Order = LoadedCase::Order;
using Context = std::shared_ptr<const ResidentContext>;

struct AppendCase {
  std::string name;
  ModelCase model_case;
  under_test::Size size = under_test::Size::kSmall;
};

// Appends of one row, of 16, and of more than a block of keys, from and to all parts of a panel.
// Also to contexts that are reduced, or are reduced only with appended rows.
std::vector<AppendCase> Cases() {
  const TestModelOptions grouped = {.d_model = 64, .n_heads = 4, .n_kv_heads = 2, .n_layers = 3};
  const TestModelOptions narrow = {.d_model = 32, .n_heads = 4, .n_kv_heads = 2};
  const TestModelOptions cells = {.row_encoder = "cell_attention", .n_heads = 2, .n_kv_heads = 2};
  return {{"Rows",
           {.options = grouped,
            .context_rows = 388,
            .query_rows = 5,
            .append_starts = {150, 151, 167, 176, 192}},
           under_test::Size::kLarge},
          {"Cells",
           {.options = cells, .context_rows = 120, .query_rows = 5, .append_starts = {70, 71, 87}},
           under_test::Size::kMedium},
          {"OneLayer",
           {.options = {.row_encoder = "cell_attention", .n_layers = 1},
            .context_rows = 40,
            .append_starts = {1, 2, 33}},
           under_test::Size::kMedium},
          {"Reduced",
           {.options = narrow,
            .context_rows = 40,
            .query_rows = 3,
            .paths = 2,
            .memory = {.rows = 17},
            .append_starts = {20, 21, 37}}},
          {"ReducedByAppends",
           {.options = narrow,
            .context_rows = 24,
            .query_rows = 3,
            .paths = 2,
            .memory = {.rows = 10},
            .append_starts = {6, 10, 12, 16}}}};
}

class AppendTest : public under_test::BackendTest, public testing::WithParamInterface<AppendCase> {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (!IsSkipped() && under_test::TooLargeForDevice(GetParam().size)) {
      GTEST_SKIP() << "too large for the emulator";
    }
    // A backend has appended rows of reduced contexts even if not of others.
    const bool reduced = Case().Shape().reduced();
    if (!IsSkipped() && !reduced && !NewDriver().backend().appends()) {
      GTEST_SKIP() << "no rows can be appended";
    }
  }

  static const ModelCase& Case() { return GetParam().model_case; }
  // The numbers of rows of the contexts that can be the prefix.
  static std::vector<int64_t> Prefixes() {
    std::vector<int64_t> rows = Case().append_starts;
    std::erase_if(rows, [](int64_t start) {
      return !CanBePrefix(Case().Prefix(start).Shape(), Case().Shape(), Case().append_starts);
    });
    return rows;
  }

  static WorkResults Results(const ModelCase& model_case, BackendDriver& driver, Context context) {
    const LoadedCase loaded(model_case, driver, std::move(context));
    const auto decode = loaded.DecodeDrawn(0, model_case.paths, Order::kRandom);
    const auto density = loaded.Density(model_case.Values(), Order::kRandom);
    const auto predict = loaded.Predict(0, model_case.query_rows);
    driver.RunAll({decode.get(), density.get(), predict.get()}, 1'000);
    return WorkResults(*decode, *density, *predict, model_case.query_rows);
  }

  // Of a context whose rows are all encoded by one unit of work.
  static const WorkResults& Expected(const ModelCase& model_case = Case()) {
    static auto* const results = new std::map<std::string, WorkResults>;
    std::string name = GetParam().name + " " + std::to_string(model_case.context_rows);
    if (model_case.append_starts.empty()) name += " at once";
    const auto found = results->find(name);
    if (found != results->end()) return found->second;
    BackendDriver driver = NewDriver();
    const Context context = driver.Encode(model_case.Encoding(NewModel(driver)), 1'000);
    return results->emplace(name, Results(model_case, driver, context)).first->second;
  }

  static std::shared_ptr<const BackendModel> NewModel(BackendDriver& driver) {
    return driver.AddModel(MakeTestModel(Case().options));
  }

  static std::vector<Resources> AllResources() {
    std::vector<Resources> all = under_test::OtherResources(Case().options.row_encoder);
    all.push_back({});
    return all;
  }
};

TEST_P(AppendTest, ResultsDependOnAllRowsAndOnTheirAppends) {
  ModelCase at_once = Case();
  at_once.append_starts = {};
  EXPECT_FALSE(Expected(at_once) == Expected());
  for (const int64_t start : Case().append_starts) {
    EXPECT_FALSE(Expected(Case().Prefix(start)) == Expected()) << start;
  }
}

TEST_P(AppendTest, AnyPrefix) {
  BackendDriver driver = NewDriver();
  const auto model = NewModel(driver);
  for (const int64_t start : Prefixes()) {
    const Context prefix = driver.Encode(Case().Prefix(start).Encoding(model), 1'000);
    const Context context = driver.Encode(Case().Encoding(model, prefix), 1'000);
    EXPECT_EQ(context->shape.rows, Case().context_rows);
    EXPECT_TRUE(Results(Case(), driver, context) == Expected()) << start;
    EXPECT_TRUE(Results(Case().Prefix(start), driver, prefix) == Expected(Case().Prefix(start)))
        << "the prefix of " << start << " rows has changed";
  }
}

TEST_P(AppendTest, OneAppendAfterTheOther) {
  BackendDriver driver = NewDriver();
  const auto model = NewModel(driver);
  Context context = driver.Encode(Case().Base().Encoding(model), 1'000);
  std::vector<int64_t> rows(Case().append_starts.begin() + 1, Case().append_starts.end());
  rows.push_back(Case().context_rows);
  for (const int64_t count : rows) {
    const ModelCase appended = Case().Prefix(count);
    if (!CanBePrefix(context->shape, appended.Shape(), appended.append_starts)) context = nullptr;
    context = driver.Encode(appended.Encoding(model, context), 1'000);
    EXPECT_TRUE(Results(appended, driver, context) == Expected(appended)) << count;
  }
}

TEST_P(AppendTest, AnyResourcesAndSlicing) {
  const int64_t start = Prefixes()[1];
  for (const Resources& resources : AllResources()) {
    for (const int64_t steps : {1, 3}) {
      SCOPED_TRACE(testing::Message() << resources.threads << " threads, " << steps << " steps");
      BackendDriver driver = NewDriver(resources);
      const auto model = NewModel(driver);
      const Context whole = driver.Encode(Case().Encoding(model), steps);
      EXPECT_TRUE(Results(Case(), driver, whole) == Expected());
      const Context prefix = driver.Encode(Case().Prefix(start).Encoding(model), steps);
      const Context context = driver.Encode(Case().Encoding(model, prefix), steps);
      EXPECT_TRUE(Results(Case(), driver, context) == Expected());
    }
  }
}

// Also next to work on the prefix.
TEST_P(AppendTest, AnyOtherWork) {
  const ModelCase base = Case().Prefix(Prefixes()[0]);
  const ModelCase other = {.options = {.seed = 9}, .context_rows = 233, .append_starts = {20, 60}};
  for (const Resources& resources : AllResources()) {
    BackendDriver driver = NewDriver(resources);
    const auto model = NewModel(driver);
    const auto other_model = driver.AddModel(MakeTestModel(other.options));
    const Context prefix = driver.Encode(base.Encoding(model), 1'000);
    const LoadedCase loaded(base, driver, prefix);
    const auto decode = loaded.DecodeDrawn(0, base.paths, Order::kRandom);
    const auto density = loaded.Density(base.Values(), Order::kRandom);
    const auto predict = loaded.Predict(0, base.query_rows);
    const auto whole = driver.NewEncode(Case().Encoding(model));
    const auto appended = driver.NewEncode(Case().Encoding(model, prefix));
    const auto noise = driver.NewEncode(other.Encoding(other_model));
    driver.RunAll(
        {whole.get(), decode.get(), appended.get(), density.get(), noise.get(), predict.get()}, 2);
    EXPECT_TRUE(WorkResults(*decode, *density, *predict, base.query_rows) == Expected(base));
    for (EncodeWork* work : {whole.get(), appended.get()}) {
      const auto context = std::make_shared<const ResidentContext>(work->TakeContext());
      EXPECT_TRUE(Results(Case(), driver, context) == Expected()) << resources.threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Contexts, AppendTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace chorale
