// The engine over the real CPU backend and the real store: densities are densities in the user's
// units, and long work is cut into short slices.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/api/engine.h"
#include "engine/backend/cpu/backend.h"
#include "engine/backend/flop_model.h"
#include "gtest/gtest.h"
#include "tests/engine/backend/test_model.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/metered_backend.h"

namespace chorale::testing {
namespace {

constexpr char kTenant[] = "tenant";

class EngineCpuTest : public ::testing::Test {
 protected:
  EngineCpuTest() {
    folder_ = absl::StrCat(::testing::TempDir(), "engine_cpu_test_",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::replace(folder_.begin() + static_cast<int64_t>(folder_.rfind("engine_cpu_test_")),
                 folder_.end(), '/', '_');
    std::filesystem::remove_all(folder_);
    model_options_.normalize_x = Normalization::kZScore;
    model_options_.normalize_y = Normalization::kZScore;
    model_ = MakeTestModel(model_options_);
  }
  ~EngineCpuTest() override {
    engine_.reset();
    std::filesystem::remove_all(folder_);
  }

  // With a meter, slices run one at a time and are measured.
  void StartEngine(int threads, const EngineOptions& options = {}, SliceMeter* meter = nullptr) {
    engine_.reset();
    auto backend = cpu::NewBackend({threads, 64 << 20, 16 << 20});
    ASSERT_TRUE(backend.ok()) << backend.status();
    if (meter != nullptr) {
      backend = std::make_unique<MeteredBackend>(*std::move(backend), meter);
    }
    auto store = OpenSqliteContextStore(folder_);
    ASSERT_TRUE(store.ok()) << store.status();
    EngineOptions patient = options;
    patient.max_queue_wait = absl::Hours(1);
    auto engine =
        Engine::Create(patient, *std::move(backend), *std::move(store), {model_}, &metrics_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  void RegisterFour() {
    for (int i = 0; i < 4; ++i) {
      auto outcome = engine_->Register(kTenant, absl::StrCat("c", i), "",
                                       MakeDataset(30 + 17 * i, static_cast<uint64_t>(i) + 1));
      ASSERT_TRUE(outcome.ok()) << outcome.status();
    }
  }

  // A Sample that is over.
  std::shared_ptr<SampleRecorder> Sample(const std::string& context, int64_t query_rows,
                                         int64_t paths, uint64_t seed) {
    SampleRequest request;
    request.context = context;
    request.query_rows = MakeTargets(query_rows);
    request.paths = paths;
    request.seed = seed;
    auto recorder = std::make_shared<SampleRecorder>();
    engine_->Sample({.tenant = kTenant}, request, recorder);
    const absl::Status status = recorder->Wait();
    EXPECT_TRUE(status.ok()) << status;
    return recorder;
  }
  void Draw(const std::string& context) { Sample(context, 7, 75, 42); }
  LogDensityResult Density(LogDensityRequest request) {
    Answer<LogDensityResult> answer;
    engine_->LogDensity({.tenant = kTenant}, std::move(request), answer.callback());
    auto result = answer.Wait();
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : LogDensityResult();
  }

  EngineOptions WithFiles() const {
    EngineOptions options;
    options.context_files_folder = folder_ + "/kv";
    options.max_context_file_bytes = 64 << 20;
    return options;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/kv", error)) {
      if (entry.path().extension() == ".kv") files.push_back(entry.path().string());
    }
    return files;
  }
  // The values of a Sample, and the densities of a LogDensity.
  std::vector<double> Answers(const std::string& context) {
    std::vector<double> answers = Sample(context, 5, 20, 9)->ByTarget(20, 5);
    LogDensityRequest density;
    density.context = context;
    density.query_rows = MakeTargets(5);
    density.vectors = 2;
    density.y = {5, 6, 7, 8, 9, 9, 8, 7, 6, 5};
    for (const double value : Density(density).log_density) answers.push_back(value);
    return answers;
  }

  TestModelOptions model_options_;
  Model model_;
  RecordingMetrics metrics_;  // of all engines
  std::string folder_;
  std::unique_ptr<Engine> engine_;
};

// By the trapezoidal rule over the first query row's y; values are z-scored, so a missing Jacobian
// shows as a factor of the context's standard deviation.
TEST_F(EngineCpuTest, DensitiesIntegrateToOneInTheUsersUnits) {
  StartEngine(2);
  RegisterFour();
  constexpr int64_t kPoints = 4001;
  const double low = -150, high = 170;
  const double step = (high - low) / (kPoints - 1);
  LogDensityRequest request;
  request.context = "c0";
  request.query_rows = MakeTargets(1);
  request.vectors = kPoints;
  for (int64_t i = 0; i < kPoints; ++i) request.y.push_back(low + step * static_cast<double>(i));
  const LogDensityResult result = Density(request);
  ASSERT_EQ(result.log_density.size(), static_cast<size_t>(kPoints));
  double mass = 0;
  double mean = 0;
  for (int64_t i = 0; i < kPoints; ++i) {
    mass += step * std::exp(result.log_density[i]);
    mean += step * std::exp(result.log_density[i]) * request.y[i];
  }
  EXPECT_NEAR(mass, 1, 1e-3);

  PredictRequest predict;
  predict.context = "c0";
  predict.query_rows = request.query_rows;
  Answer<PredictResult> answer;
  engine_->Predict({.tenant = kTenant}, predict, answer.callback());
  const auto prediction = answer.Wait();
  ASSERT_TRUE(prediction.ok());
  EXPECT_NEAR(prediction->mean[0], mean, 1e-2);
}

// A model that always predicts N(1, 0.5) in its own units, whatever the input.
TEST_F(EngineCpuTest, UnitsOfAModelWhoseAnswerIsKnown) {
  model_ = MakeConstantModel({{1.0f, 0.5f, 1.0f}}, model_options_);
  StartEngine(1);
  const Dataset dataset = MakeDataset(30);
  ASSERT_TRUE(engine_->Register(kTenant, "c", "", dataset).ok());
  double mean = 0;
  for (const double y : dataset.y) mean += y / 30;
  double variance = 0;
  for (const double y : dataset.y) variance += (y - mean) * (y - mean) / 30;
  const double scale = std::sqrt(variance);

  LogDensityRequest request;
  request.context = "c";
  request.query_rows = MakeTargets(3);
  request.vectors = 1;
  request.y = {6, 7.5, 10};
  request.want_mixtures = true;
  const LogDensityResult result = Density(request);
  double expected = 0;
  for (const double y : request.y) {
    const double z = (y - (mean + scale)) / (0.5 * scale);
    expected += -0.5 * z * z - std::log(0.5 * scale) - 0.5 * std::log(2 * std::numbers::pi);
  }
  EXPECT_NEAR(result.log_density.at(0), expected, 1e-4);
  EXPECT_NEAR(result.mixtures.means.at(0), mean + scale, 1e-5);
  EXPECT_NEAR(result.mixtures.stds.at(0), 0.5 * scale, 1e-5);

  SampleRequest sample;
  sample.context = "c";
  sample.query_rows = request.query_rows;
  sample.paths = 4000;
  sample.seed = 3;
  auto recorder = std::make_shared<SampleRecorder>();
  auto call = engine_->Sample({.tenant = kTenant}, sample, recorder);
  call->Acknowledge(1 << 30);
  ASSERT_TRUE(recorder->Wait().ok());
  double sum = 0;
  double squares = 0;
  for (const double y : recorder->ByTarget(4000, 3)) {
    sum += y;
    squares += (y - mean - scale) * (y - mean - scale);
  }
  EXPECT_NEAR(sum / 12000, mean + scale, 5 * 0.5 * scale / std::sqrt(12000));
  EXPECT_NEAR(std::sqrt(squares / 12000), 0.5 * scale, 0.02 * scale);
}

class EncodedContextsTest : public EngineCpuTest,
                            public ::testing::WithParamInterface<const char*> {
 protected:
  EncodedContextsTest() {
    model_options_.row_encoder = GetParam();
    model_ = MakeTestModel(model_options_);
  }
};

INSTANTIATE_TEST_SUITE_P(RowEncoders, EncodedContextsTest,
                         ::testing::Values("feature_mean", "cell_attention"));

TEST_P(EncodedContextsTest, AnswersAfterARestartAreTheSameBitsWithoutAnEncoding) {
  StartEngine(2, WithFiles());
  RegisterFour();
  std::vector<std::vector<double>> expected;
  for (int i = 0; i < 4; ++i) expected.push_back(Answers(absl::StrCat("c", i)));
  EXPECT_EVENTUALLY(Files().size() == 4);
  EXPECT_EQ(metrics_.encodings, 4);
  StartEngine(1, WithFiles());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Answers(absl::StrCat("c", i)) == expected[i]);
  EXPECT_EQ(metrics_.encodings, 4);
  EXPECT_EQ(metrics_.restores, 4);

  // A file that is damaged is encoded again, and so is one of another model.
  for (const std::string& file : Files()) std::filesystem::resize_file(file, 1000);
  StartEngine(2, WithFiles());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Answers(absl::StrCat("c", i)) == expected[i]);
  EXPECT_EQ(metrics_.encodings, 8);
  EXPECT_EVENTUALLY(Files().size() == 4);
  model_.digest = "another";
  StartEngine(2, WithFiles());
  EXPECT_TRUE(Files().empty());
  EXPECT_TRUE(Answers("c0") != expected[0]) << "the model has a part in the random numbers";
  EXPECT_EQ(metrics_.encodings, 9);
}

TEST_P(EncodedContextsTest, WithoutAFolderForThemTheEngineServesAllTheSame) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/kv") << "a file is in the way";
  StartEngine(2, WithFiles());
  RegisterFour();
  Answers("c0");
  EXPECT_EQ(metrics_.encodings, 1);
}

TEST_P(EncodedContextsTest, ADeletedContextsFileIsGoneAndIsNotOfItsSuccessor) {
  StartEngine(2, WithFiles());
  RegisterFour();
  Answers("c0");
  EXPECT_EVENTUALLY(Files().size() == 1);
  ASSERT_TRUE(engine_->DeleteContext(kTenant, "c0").ok());
  EXPECT_TRUE(Files().empty());
  ASSERT_TRUE(engine_->Register(kTenant, "c0", "", MakeDataset(30, 1)).ok());
  Answers("c0");
  EXPECT_EQ(metrics_.encodings, 2);
}

// What takes long takes many ticks: a slice costs no more than the scheduler took it for, and is a
// small part of the whole.
TEST_F(EngineCpuTest, LongWorkTakesManyTicks) {
  EngineOptions options;
  options.target_tick = absl::Milliseconds(1);
  SliceMeter meter;
  StartEngine(1, options, &meter);
  RegisterFour();
  // The engine knows how fast it is when these are done.
  for (int i = 0; i < 4; ++i) Draw(absl::StrCat("c", i));
  ASSERT_TRUE(engine_->Register(kTenant, "large", "", MakeDataset(4'000)).ok());
  const auto expect_many_slices = [&meter](const char* what) {
    const std::vector<MeteredSlice> slices = meter.Take();
    double total = 0;
    for (const MeteredSlice& slice : slices) total += slice.flops;
    for (const MeteredSlice& slice : slices) {
      EXPECT_GT(slice.flops, 0) << what;
      EXPECT_LE(slice.flops, slice.expected_flops * (1 + 1e-9)) << what;
      EXPECT_LE(slice.flops, total / 8) << what;
    }
  };
  meter.Take();
  Answer<ContextInfo> encoded;
  engine_->Warm({.tenant = kTenant}, {"large"}, encoded.callback());
  ASSERT_TRUE(encoded.Wait().ok());
  expect_many_slices("encoding");

  LogDensityRequest density;
  density.context = "large";
  density.query_rows = MakeTargets(500);
  density.vectors = 2;
  density.y.assign(1'000, 7.0);
  density.beyond_buffer = BeyondBuffer::kWrap;
  ASSERT_EQ(Density(density).log_density.size(), 2u);
  expect_many_slices("density");

  PredictRequest predict;
  predict.context = "large";
  predict.query_rows = density.query_rows;
  Answer<PredictResult> predicted;
  engine_->Predict({.tenant = kTenant}, predict, predicted.callback());
  ASSERT_TRUE(predicted.Wait().ok());
  expect_many_slices("prediction");
  engine_.reset();  // before the meter
}

// Otherwise the backlog is wrong by that much: what a request is estimated to take before it starts
// is what the backend then says that its steps took.
TEST_F(EngineCpuTest, WorkTakesTheFlopsThatWereEstimated) {
  StartEngine(2);
  constexpr int64_t kRows = 300;
  constexpr int64_t kQueryRows = 7;
  ASSERT_TRUE(engine_->Register(kTenant, "c", "", MakeDataset(kRows)).ok());
  SampleRequest sample;
  sample.context = "c";
  sample.query_rows = MakeTargets(kQueryRows);
  sample.paths = 70;  // two tiles
  auto recorder = std::make_shared<SampleRecorder>();
  engine_->Sample({.tenant = kTenant}, sample, recorder);
  ASSERT_TRUE(recorder->Wait().ok());

  LogDensityRequest density;
  density.context = "c";
  density.query_rows = sample.query_rows;
  density.vectors = 70;
  density.y.assign(70 * kQueryRows, 7.0);
  Density(density);

  PredictRequest predict;
  predict.context = "c";
  predict.query_rows = MakeTargets(200);
  Answer<PredictResult> predicted;
  engine_->Predict({.tenant = kTenant}, predict, predicted.callback());
  ASSERT_TRUE(predicted.Wait().ok());

  // A batch counts as a whole one when it is not full; on large requests that is little.
  const ModelConfig& config = model_.config;
  const auto expect_near = [&](WorkKind kind, double estimate, double tolerance) {
    EXPECT_NEAR(metrics_.flops(kind) / estimate, 1, tolerance) << static_cast<int>(kind);
  };
  expect_near(WorkKind::kEncode, EncodeFlops(config, {.rows = kRows}),
              0.35);  // and the row encoder's
  expect_near(WorkKind::kDecode, DecodeFlops(config, 70, kRows, 0, kQueryRows), 1e-9);
  expect_near(WorkKind::kDensity, DensityFlops(config, kRows, kQueryRows, 70), 0.35);
  expect_near(WorkKind::kPredict, PredictFlops(config, kRows, 200), 0.35);
  EXPECT_GT(metrics_.flops(WorkKind::kRows), 0);
  EXPECT_EQ(metrics_.values_of(WorkKind::kDecode), 70 * kQueryRows);
  EXPECT_EQ(metrics_.values_of(WorkKind::kDensity), 70 * kQueryRows);
  EXPECT_EQ(metrics_.values_of(WorkKind::kPredict), 200);
  EXPECT_EQ(metrics_.values_of("tenant/" + model_.name), 2 * 70 * kQueryRows + 200);
  EXPECT_EQ(metrics_.encoded_rows, kRows);
  // All of the ticks' time is somebody's.
  EXPECT_NEAR(absl::FDivDuration(metrics_.engine_time(kTenant), metrics_.tick_time()), 1, 1e-6);
}

TEST_F(EngineCpuTest, TheBacklogIsWhatAcceptedRequestsStillAskFor) {
  EngineOptions options;
  options.max_unacknowledged_values = 70;
  StartEngine(2, options);
  RegisterFour();
  SampleRequest sample;
  sample.context = "c0";
  sample.query_rows = MakeTargets(20);
  sample.beyond_buffer = BeyondBuffer::kWrap;
  sample.paths = 70;
  auto recorder = std::make_shared<SampleRecorder>();
  auto call = engine_->Sample({.tenant = kTenant}, sample, recorder);
  recorder->WaitForValues(70);  // then it waits for its reader
  EXPECT_EVENTUALLY(engine_->Stats().backlog_values > 0 &&
                    engine_->Stats().tick_age == absl::ZeroDuration());
  const int64_t left = 70 * 20 - recorder->values();
  const EngineStats half = engine_->Stats();
  // Later values take a little more than the first ones.
  EXPECT_NEAR(static_cast<double>(half.backlog_values), static_cast<double>(left), 0.1 * 1400);
  EXPECT_GT(half.backlog_time, absl::ZeroDuration());

  auto second = std::make_shared<SampleRecorder>();
  sample.context = "c1";
  auto second_call = engine_->Sample({.tenant = kTenant}, sample, second);
  second->WaitForValues(70);
  EXPECT_EVENTUALLY(engine_->Stats().backlog_values > left + 70 * 15);
  // What a value takes is measured, and may by now be less: so the times are not compared.
  EXPECT_GT(engine_->Stats().backlog_time, absl::ZeroDuration());

  call->Cancel();
  second_call->Cancel();
  EXPECT_EVENTUALLY(engine_->Stats().backlog_values == 0);
  EXPECT_EVENTUALLY(engine_->Stats().backlog_time == absl::ZeroDuration());
}

}  // namespace
}  // namespace chorale::testing
