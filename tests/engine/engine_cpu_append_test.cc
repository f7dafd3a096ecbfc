// Appended rows over the real CPU backend and the real store: results have the bits of a context
// that is encoded from the store.
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "engine/api/engine.h"
#include "engine/backend/cpu/backend.h"
#include "engine/store/context_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/appended_rows.h"
#include "tests/engine/backend/test_model.h"
#include "tests/engine/engine_fixture.h"
#include "tests/support/temp_folder.h"

namespace chorale::testing {
namespace {

constexpr char kTenant[] = "tenant";
constexpr int64_t kBaseRows = 40;

// With a column of categories, in which the first rows do not have the category "new". The target
// of other rows has an error.
Dataset MixedDataset(int64_t rows, uint64_t seed, bool first) {
  Dataset dataset = MakeDataset(rows, seed);
  Column column{.name = "kind",
                .type = ColumnType::kCategorical,
                .numbers = {},
                .categories = {first ? "old" : "new", "usual"},
                .codes = {}};
  for (int64_t i = 0; i < rows; ++i) column.codes.push_back(static_cast<int32_t>(i % 3 == 0));
  dataset.features.columns.push_back(std::move(column));
  if (!first) dataset.y.front() = 1e9;
  return dataset;
}

// By the row encoder, whether encoded contexts are kept in files, and the memory set.
struct Case {
  std::string row_encoder;
  bool files = false;
  MemorySet memory = {};

  bool Reduced(int64_t rows) const {
    return ContextShape{.rows = rows, .memory = memory}.reduced();
  }

  friend void PrintTo(const Case& tested, std::ostream* out) {
    *out << tested.row_encoder << (tested.files ? " with files" : "")
         << (tested.memory.rows > 0 ? " reduced by appends" : "");
  }
};

class EngineCpuAppendTest : public ::testing::TestWithParam<Case> {
 protected:
  EngineCpuAppendTest() {
    model_ = MakeTestModel({.row_encoder = GetParam().row_encoder,
                            .normalize_x = Normalization::kZScore,
                            .normalize_y = Normalization::kZScore});
  }

  void StartEngine() {
    engine_.reset();
    EngineOptions options;
    options.max_queue_wait = absl::Hours(1);
    options.max_appended_share = 1000;
    if (GetParam().files) {
      options.context_files_folder = folder_ / "kv";
      options.max_context_file_bytes = 64 << 20;
    }
    engine_ = Engine::Create(options, cpu::NewBackend({2, 64 << 20, 16 << 20}).value(),
                             OpenSqliteContextStore(folder_ / "store").value(), {model_}, &metrics_)
                  .value();
  }
  static Dataset Base() {
    Dataset dataset = MixedDataset(kBaseRows, 1, /*first=*/true);
    dataset.memory = GetParam().memory;
    return dataset;
  }
  void Append(const Dataset& rows) {
    const auto outcome = engine_->Append(kTenant, {.context = "c"}, RowsOf(rows), StoreQuota());
    ASSERT_TRUE(outcome.ok()) << outcome.status();
  }
  void Warm(const WarmRequest& request) {
    Answer<ContextInfo> answer;
    engine_->Warm({.tenant = kTenant}, request, answer.callback());
    const auto info = answer.Wait();
    ASSERT_TRUE(info.ok()) << info.status();
  }
  ContextRecord Record(const std::string& name) {
    return engine_->GetContext(kTenant, name)->record;
  }
  // That are complete.
  int64_t Files() const {
    int64_t files = 0;
    for (const std::string& path : FilesBelow(folder_ / "kv")) files += path.ends_with(".kv");
    return files;
  }
  // Opens the same store with another engine, once files are written. Returns the rows that this
  // engine encodes for a context.
  int64_t RestartAndCountEncodedRows(const std::string& context) {
    if (GetParam().files) {
      EXPECT_EVENTUALLY(Files() == engine_->Stats().resident_contexts);
    }
    StartEngine();
    const int64_t before = metrics_.encoded_rows;
    Warm({.context = context});
    return metrics_.encoded_rows - before;
  }
  // Values of a Sample, densities and predictions. They depend on the digest of the context.
  std::vector<double> Results(const std::string& context, int64_t local_rows = 0) {
    Table rows = MixedDataset(5, 9, /*first=*/true).features;
    SampleRequest sample;
    sample.context = context;
    sample.query_rows = rows;
    sample.paths = 7;
    sample.seed = 3;
    sample.local_rows = local_rows;
    auto recorder = std::make_shared<SampleRecorder>();
    engine_->Sample({.tenant = kTenant}, sample, recorder);
    EXPECT_TRUE(recorder->Wait().ok());
    std::vector<double> results = recorder->ByTarget(7, 5);
    LogDensityRequest density;
    density.context = context;
    density.query_rows = rows;
    density.vectors = 1;
    density.y = {5, 6, 7, 8, 9};
    density.local_rows = local_rows;
    Answer<LogDensityResult> densities;
    engine_->LogDensity({.tenant = kTenant}, density, densities.callback());
    const LogDensityResult evaluated = densities.Wait().value();
    results.insert(results.end(), evaluated.log_density.begin(), evaluated.log_density.end());
    PredictRequest predict;
    predict.context = context;
    predict.query_rows = rows;
    predict.local_rows = local_rows;
    Answer<PredictResult> predictions;
    engine_->Predict({.tenant = kTenant}, predict, predictions.callback());
    const PredictResult predicted = predictions.Wait().value();
    results.insert(results.end(), predicted.mean.begin(), predicted.mean.end());
    return results;
  }

  TempFolder folder_;
  Model model_;
  RecordingMetrics metrics_;  // of all engines
  std::unique_ptr<Engine> engine_;
};

INSTANTIATE_TEST_SUITE_P(Cases, EngineCpuAppendTest,
                         ::testing::Values(Case{"feature_mean"}, Case{"feature_mean", true},
                                           Case{"cell_attention"}, Case{"cell_attention", true},
                                           Case{"feature_mean", true, {.rows = 64}},
                                           Case{"cell_attention", false, {.rows = 64}}));

TEST_P(EngineCpuAppendTest, ResultsAreThoseOfAContextEncodedFromTheStore) {
  StartEngine();
  ASSERT_TRUE(engine_->Register(kTenant, "c", "", Base()).ok());
  std::vector<double> before = Results("c");
  int64_t rows = kBaseRows;
  int64_t encoded = kBaseRows;
  for (const int64_t appended : {1, 16, 30, 5}) {
    Append(MixedDataset(appended, static_cast<uint64_t>(appended) + 10, /*first=*/false));
    const bool same_form = GetParam().Reduced(rows) == GetParam().Reduced(rows + appended);
    rows += appended;
    encoded += same_form ? appended : rows;
    const std::vector<double> results = Results("c");
    EXPECT_NE(results, before) << "the rows were not seen";
    EXPECT_EQ(metrics_.encoded_rows, encoded) << "earlier rows were encoded again";
    const std::vector<double> local = Results("c", 12);
    EXPECT_EQ(RestartAndCountEncodedRows("c"), GetParam().files ? 0 : rows);
    EXPECT_EQ(Results("c"), results);
    EXPECT_EQ(Results("c", 12), local);
    encoded = metrics_.encoded_rows;
    before = results;
  }
  EXPECT_EQ(Record("c").appended_rows, rows - kBaseRows);
}

TEST_P(EngineCpuAppendTest, EncodedAnewItIsARegistrationOfAllRows) {
  StartEngine();
  Dataset all = Base();
  ASSERT_TRUE(engine_->Register(kTenant, "c", "", all).ok());
  Warm({.context = "c"});
  for (const int64_t appended : {3, 30}) {
    const Dataset more = MixedDataset(appended, static_cast<uint64_t>(appended), /*first=*/true);
    Append(more);
    all.features.columns[2].codes.insert(all.features.columns[2].codes.end(),
                                         more.features.columns[2].codes.begin(),
                                         more.features.columns[2].codes.end());
    all = Joined(all, more);
  }
  const std::vector<double> appended = Results("c");
  ASSERT_TRUE(engine_->Register(kTenant, "all", "", all).ok());
  Warm({.context = "c", .encode_anew = true});
  EXPECT_EQ(Record("c").digest, Record("all").digest);
  EXPECT_EQ(Record("c").appended_rows, 0);
  const std::vector<double> anew = Results("c");
  EXPECT_NE(anew, appended);
  EXPECT_EQ(anew, Results("all"));
  EXPECT_EQ(RestartAndCountEncodedRows("c"), GetParam().files ? 0 : kBaseRows + 3 + 30);
  EXPECT_EQ(Results("c"), anew);
}

}  // namespace
}  // namespace chorale::testing
