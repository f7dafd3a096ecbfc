// The engine over the GPU backend: answers depend neither on the size of the pools nor on eviction
// and restoring of contexts meanwhile.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/api/engine.h"
#include "engine/backend/cuda/backend.h"
#include "gtest/gtest.h"
#include "kernels/cuda/runtime/runtime.h"
#include "tests/engine/backend/test_model.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/fake_store.h"

namespace chorale::testing {
namespace {

constexpr char kTenant[] = "tenant";
constexpr int64_t kContexts = 3;
constexpr int64_t kPaths = 9;
constexpr int64_t kQueryRows = 3;

int64_t RowsOf(int64_t context) { return 40 + 50 * context; }
std::string NameOf(int64_t context) { return absl::StrCat("c", context); }

// One call of each kind on a context, and the answers.
class Calls {
 public:
  Calls(int64_t context, Engine& engine) {
    const auto fill = [&](RequestBase& request) {
      request.context = NameOf(context);
      request.query_rows = MakeTargets(kQueryRows);
    };
    SampleRequest sample;
    fill(sample);
    sample.paths = kPaths;
    sample.seed = 3;
    sample.order = RowOrder::kRandomPerPath;
    engine.Sample({.tenant = kTenant}, sample, samples_);
    LogDensityRequest density;
    fill(density);
    density.vectors = 2;
    density.y = {0.1, 0.2, 0.3, -0.1, 0.4, 0.7};
    density.want_mixtures = true;
    engine.LogDensity({.tenant = kTenant}, density, densities_.callback());
    PredictRequest predict;
    fill(predict);
    predict.query_rows = MakeTargets(200);
    engine.Predict({.tenant = kTenant}, predict, predictions_.callback());
  }

  std::vector<double> Wait() {
    EXPECT_TRUE(samples_->Wait().ok());
    std::vector<double> numbers = samples_->ByTarget(kPaths, kQueryRows);
    const auto append = [&](const std::vector<double>& more) {
      numbers.insert(numbers.end(), more.begin(), more.end());
    };
    const absl::StatusOr<LogDensityResult> densities = densities_.Wait();
    EXPECT_TRUE(densities.ok()) << densities.status();
    if (!densities.ok()) return {};
    append(densities->log_density);
    append(densities->mixtures.means);
    const absl::StatusOr<PredictResult> predictions = predictions_.Wait();
    EXPECT_TRUE(predictions.ok()) << predictions.status();
    if (!predictions.ok()) return {};
    append(predictions->mean);
    return numbers;
  }

 private:
  const std::shared_ptr<SampleRecorder> samples_ = std::make_shared<SampleRecorder>();
  Answer<LogDensityResult> densities_;
  Answer<PredictResult> predictions_;
};

class EngineCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (kernels::cuda::CountDevices(&devices) != 0 || devices == 0) {
      GTEST_SKIP() << "there is no GPU";
    }
  }

  void StartEngine(const cuda::MemoryBudget& options) {
    engine_.reset();
    absl::StatusOr<std::unique_ptr<Backend>> backend = cuda::NewBackend({.memory = options});
    ASSERT_TRUE(backend.ok()) << backend.status();
    engine_options_.max_queue_wait = absl::Hours(1);  // the emulator is slow
    largest_context_ = (*backend)->ContextBytes(model_.config, {.rows = RowsOf(kContexts - 1)});
    largest_encoding_ = (*backend)->EncodeBytes(model_.config, {.rows = RowsOf(kContexts - 1)});
    largest_request_ = std::max(
        (*backend)->DensityBytes(model_.config, kQueryRows, 2),
        (*backend)->RowsBytes(model_.config, 200) + (*backend)->PredictBytes(model_.config, 128));
    std::unique_ptr<ContextStore> store = std::make_unique<FakeStore>(&store_);
    if (!engine_options_.context_files_folder.empty()) {
      auto opened = OpenSqliteContextStore(engine_options_.context_files_folder + "/data");
      ASSERT_TRUE(opened.ok()) << opened.status();
      store = *std::move(opened);
    }
    absl::StatusOr<std::unique_ptr<Engine>> engine =
        Engine::Create(engine_options_, *std::move(backend), std::move(store), {model_}, &metrics_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    for (int64_t i = 0; i < kContexts; ++i) {
      ASSERT_TRUE(engine_->Register(kTenant, NameOf(i), "", MakeDataset(RowsOf(i), i + 1)).ok());
    }
  }

  EngineOptions engine_options_;
  Model model_ = MakeTestModel();
  int64_t largest_context_ = 0;
  int64_t largest_encoding_ = 0;
  int64_t largest_request_ = 0;
  FakeStoreLog store_;
  RecordingMetrics metrics_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineCudaTest, ResultsAreThoseOfAnEngineWithMemoryToSpare) {
  cuda::MemoryBudget options = {.context_pool_bytes = 16 << 20,
                                .buffer_pool_bytes = 32 << 20,
                                .encode_pool_bytes = 16 << 20,
                                .weights_bytes = 4 << 20,
                                .workspace_bytes = 4 << 20};
  StartEngine(options);
  std::vector<std::vector<double>> expected;
  for (int64_t i = 0; i < kContexts; ++i) expected.push_back(Calls(i, *engine_).Wait());
  EXPECT_NE(expected[0], expected[1]);
  EXPECT_EQ(metrics_.evictions, 0);

  // Room for the largest context, and for one or two requests, at a time.
  options.context_pool_bytes = largest_context_;
  options.buffer_pool_bytes = std::max<int64_t>(2 * largest_request_, 1 << 20);
  options.encode_pool_bytes = largest_encoding_;
  options.host_context_pool_bytes = 4 * largest_context_;  // all, whatever gaps there are
  const int64_t encodings = metrics_.encodings;
  StartEngine(options);
  std::vector<std::pair<int64_t, std::unique_ptr<Calls>>> calls;
  for (int64_t turn = 0; turn < 2; ++turn) {
    for (int64_t i = 0; i < kContexts; ++i) {
      calls.emplace_back(i, std::make_unique<Calls>(i, *engine_));
    }
    for (const auto& [context, call] : calls) EXPECT_TRUE(call->Wait() == expected[context]);
    calls.clear();
  }
  EXPECT_GE(metrics_.restores, 1);
  EXPECT_EQ(metrics_.encodings - encodings, kContexts);
  EXPECT_EQ(engine_->Stats().buffer_bytes, 0);
}

TEST_F(EngineCudaTest, AnswersAfterARestartAreTheSameBitsWithoutAnEncoding) {
  for (const char* row_encoder : {"feature_mean", "cell_attention"}) {
    SCOPED_TRACE(row_encoder);
    const std::string folder =
        absl::StrCat(::testing::TempDir(), "engine_cuda_files_", row_encoder);
    std::filesystem::remove_all(folder);
    engine_options_.context_files_folder = folder;
    engine_options_.max_context_file_bytes = 64 << 20;
    TestModelOptions model_options;
    model_options.row_encoder = row_encoder;
    model_ = MakeTestModel(model_options);
    const cuda::MemoryBudget options = {.context_pool_bytes = 16 << 20,
                                        .buffer_pool_bytes = 32 << 20,
                                        .encode_pool_bytes = 16 << 20,
                                        .weights_bytes = 4 << 20,
                                        .workspace_bytes = 4 << 20,
                                        .host_context_pool_bytes = 16 << 20};
    StartEngine(options);
    std::vector<std::vector<double>> expected;
    for (int64_t i = 0; i < kContexts; ++i) expected.push_back(Calls(i, *engine_).Wait());
    const auto files = [&folder] {
      const auto entries = std::filesystem::directory_iterator(folder);
      return std::count_if(begin(entries), end(entries),
                           [](const auto& entry) { return entry.path().extension() == ".kv"; });
    };
    EXPECT_EVENTUALLY(files() == kContexts);
    const int64_t encodings = metrics_.encodings;
    const int64_t restores = metrics_.restores;
    StartEngine(options);
    for (int64_t i = 0; i < kContexts; ++i) {
      EXPECT_TRUE(Calls(i, *engine_).Wait() == expected[i]);
    }
    EXPECT_EQ(metrics_.encodings, encodings);
    EXPECT_EQ(metrics_.restores - restores, kContexts);
    engine_.reset();
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace chorale::testing
