// Calls that use the rows of a context that are nearest to their query rows.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error_details.h"
#include "engine/api/engine.h"
#include "engine/backend/cpu/backend.h"
#include "engine/store/context_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backend/test_model.h"
#include "tests/engine/engine_fixture.h"
#include "tests/support/temp_folder.h"

namespace chorale::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pointwise;

class EngineLocalRowsTest : public EngineFixture {
 protected:
  EngineLocalRowsTest() { options_.max_registered_bytes = 1 << 20; }

  SampleRequest LocalSample(int64_t local_rows, int64_t query_rows = 3) const {
    SampleRequest request = SampleOf("c", 2, query_rows);
    request.local_rows = local_rows;
    return request;
  }
  std::shared_ptr<SampleRecorder> Send(SampleRequest request) {
    auto recorder = std::make_shared<SampleRecorder>();
    engine_->Sample(call_, std::move(request), recorder);
    return recorder;
  }
  absl::Status Draw(SampleRequest request) { return Send(std::move(request))->Wait(); }
  // Lets steps of an encoding through a closed gate until the condition holds.
  template <typename Condition>
  bool StepUntil(const Condition& condition) {
    return Eventually([&] {
      backend_.LetThrough(1);
      return condition(engine_->Stats().contexts);
    });
  }
};

TEST_F(EngineLocalRowsTest, TheyAreEncodedForTheCallAlone) {
  StartEngine();
  Register("c", 100);
  ASSERT_TRUE(Draw(LocalSample(10)).ok());
  EXPECT_EQ(metrics_.encoded_rows, 10);
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 0);
  EXPECT_EQ(StateOf("c"), ContextState::kNotResident);
  ASSERT_TRUE(Draw(LocalSample(20)).ok());
  EXPECT_EQ(metrics_.encoded_rows, 30);
  EXPECT_EQ(store_.reads, 1) << "the table is held for further calls";
  for (const auto& lookups : metrics_.lookups) EXPECT_EQ(lookups, 0);
}

TEST_F(EngineLocalRowsTest, AllRowsAreThoseOfTheContext) {
  StartEngine();
  Register("c", 100);
  ASSERT_TRUE(Draw(LocalSample(100)).ok());
  ASSERT_TRUE(Draw(LocalSample(1000)).ok());
  ASSERT_TRUE(Draw(LocalSample(0)).ok());
  EXPECT_EQ(metrics_.encoded_rows, 100);
  EXPECT_EQ(StateOf("c"), ContextState::kResident);
}

TEST_F(EngineLocalRowsTest, EveryCallMayUseThem) {
  StartEngine();
  Register("c", 100);
  PredictRequest predict = PredictOf("c", 3);
  predict.local_rows = 10;
  Answer<PredictResult> predicted;
  engine_->Predict(call_, predict, predicted.callback());
  EXPECT_TRUE(predicted.Wait().ok());
  LogDensityRequest density = DensityOf("c", 2, 3);
  density.local_rows = 20;
  Answer<LogDensityResult> evaluated;
  engine_->LogDensity(call_, density, evaluated.callback());
  EXPECT_TRUE(evaluated.Wait().ok());
  SampleRequest estimate = LocalSample(30);
  estimate.validate_only = true;
  EXPECT_TRUE(Draw(estimate).ok());
  EXPECT_EQ(metrics_.encoded_rows, 30);
}

TEST_F(EngineLocalRowsTest, BadNumbersAreRefused) {
  options_.limits.max_context_rows = 50;
  StartEngine();
  Register("c", 40);
  for (const int64_t local_rows : {-1, 1, 2, 51}) {
    const absl::Status status = Draw(LocalSample(local_rows));
    EXPECT_EQ(ErrorField(status), "local_row_count") << local_rows << ": " << status;
  }
  EXPECT_THAT(Draw(LocalSample(2)).message(),
              HasSubstr("is 2; must be 0, or at least 3 (the number of query rows)"));
  EXPECT_EQ(store_.reads, 0);
}

TEST_F(EngineLocalRowsTest, TheRowsMustFitIntoTheContextPool) {
  backend_options_.context_pool_bytes = 640;  // ten rows
  StartEngine();
  Register("c", 10);
  EXPECT_TRUE(Draw(LocalSample(9)).ok());
  EXPECT_EQ(metrics_.encoded_rows, 9);
}

TEST_F(EngineLocalRowsTest, ReplacedWhileItsTableIsRead) {
  std::string digest;
  store_.before_read = [&] {
    if (!digest.empty()) return;
    RegisterRequest request{.context = "c", .model = ""};
    request.replace = true;
    const auto replaced = engine_->Register(kTenant, request, MakeDataset(50, 2), StoreQuota());
    ASSERT_TRUE(replaced.ok()) << replaced.status();
    digest = replaced->context.record.digest;
  };
  StartEngine();
  Register("c", 100, 1);
  const auto recorder = Send(LocalSample(10));
  EXPECT_TRUE(recorder->Wait().ok()) << recorder->Wait();
  EXPECT_EQ(recorder->summary().source.context_digest, digest);
}

TEST_F(EngineLocalRowsTest, DeletedContextsAreNotFoundAndTheirTablesNotHeld) {
  StartEngine();
  Register("c", 100);
  ASSERT_TRUE(Draw(LocalSample(10)).ok());
  EXPECT_GT(engine_->Stats().registration_bytes, 0);
  ASSERT_TRUE(engine_->DeleteContext(kTenant, "c").ok());
  EXPECT_EQ(engine_->Stats().registration_bytes, 0);
  EXPECT_EQ(Draw(LocalSample(10)).code(), absl::StatusCode::kNotFound);
}

TEST_F(EngineLocalRowsTest, WithoutMemoryForTablesEachCallReadsThem) {
  options_.max_registered_bytes = 0;
  StartEngine();
  Register("c", 100);
  ASSERT_TRUE(Draw(LocalSample(10)).ok());
  const int64_t reads = store_.reads;
  ASSERT_TRUE(Draw(LocalSample(10)).ok());
  EXPECT_GT(store_.reads, reads);
  EXPECT_EQ(engine_->Stats().registration_bytes, 0);
}

// The second waits without its data, which is then taken from the table once more.
TEST_F(EngineLocalRowsTest, TwoCallsWaitForRoom) {
  backend_options_.context_pool_bytes = 1280;  // twenty rows
  backend_options_.encode_steps = 10'000;
  StartEngine();
  Register("c", 20);
  backend_.CloseGate();
  const auto first = Send(LocalSample(15));
  const auto second = Send(LocalSample(15));
  EXPECT_TRUE(StepUntil([](const auto& counts) { return counts.encoding + counts.waiting == 2; }));
  backend_.OpenGate();
  EXPECT_TRUE(first->Wait().ok());
  EXPECT_TRUE(second->Wait().ok());
  EXPECT_EQ(metrics_.encoded_rows, 30);
}

TEST_F(EngineLocalRowsTest, ACancelledCallLeavesNothing) {
  backend_options_.encode_steps = 10'000;
  StartEngine();
  Register("c", 100);
  backend_.CloseGate();
  auto recorder = std::make_shared<SampleRecorder>();
  const auto call = engine_->Sample(call_, LocalSample(10), recorder);
  EXPECT_TRUE(StepUntil([](const auto& counts) { return counts.encoding == 1; }));
  call->Cancel();
  backend_.OpenGate();
  EXPECT_EQ(recorder->Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 0);
}

// The engine over the backend of the CPU and the store.
class EngineLocalRowsCpuTest : public ::testing::Test {
 protected:
  EngineLocalRowsCpuTest() {
    TestModelOptions model;
    model.normalize_x = Normalization::kZScore;
    model.normalize_y = Normalization::kZScore;
    EngineOptions options;
    options.context_files_folder = folder_ / "kv";
    options.max_context_file_bytes = 64 << 20;
    auto engine = Engine::Create(options, *cpu::NewBackend({2, 64 << 20, 16 << 20}),
                                 *OpenSqliteContextStore(folder_ / "store"), {MakeTestModel(model)},
                                 &metrics_);
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  // The numbers of 20 rows, and of the same rows again: tables that are scaled alike.
  static Dataset Numbers(int64_t rows) {
    Dataset dataset;
    dataset.features = Features(rows);
    dataset.target = "y";
    for (int64_t i = 0; i < rows; ++i) dataset.y.push_back(static_cast<double>(i % 20));
    return dataset;
  }
  static Table Features(int64_t rows) {
    Column a{.name = "a"};
    Column b{.name = "b"};
    Column c{.name = "c"};
    for (int64_t i = 0; i < rows; ++i) {
      a.numbers.push_back(static_cast<double>(i % 5));
      b.numbers.push_back(static_cast<double>(7 * i % 10));
      c.numbers.push_back(static_cast<double>(i % 20 / 10));
    }
    return {{a, b, c}};
  }
  PredictResult Predict(const std::string& context, int64_t local_rows) {
    PredictRequest request;
    request.context = context;
    request.query_rows = Features(20);
    request.want_mixtures = true;
    request.local_rows = local_rows;
    Answer<PredictResult> answer;
    engine_->Predict({.tenant = "tenant"}, request, answer.callback());
    const auto result = answer.Wait();
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : PredictResult();
  }

  const TempFolder folder_;
  RecordingMetrics metrics_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineLocalRowsCpuTest, TheAnswersAreThoseOfATableOfTheseRows) {
  ASSERT_TRUE(engine_->Register("tenant", "twice", "", Numbers(40)).ok());
  ASSERT_TRUE(engine_->Register("tenant", "once", "", Numbers(20)).ok());
  const PredictResult once = Predict("once", 0);
  // The nearest row of each of the 20 query rows is the first of two equal ones.
  const PredictResult local = Predict("twice", 20);
  EXPECT_THAT(local.mean, Pointwise(DoubleNear(1e-5), once.mean));
  EXPECT_THAT(local.std, Pointwise(DoubleNear(1e-5), once.std));
  EXPECT_THAT(local.mixtures.weights, Pointwise(DoubleNear(1e-5), once.mixtures.weights));
  EXPECT_THAT(Predict("twice", 25).mean, Not(Pointwise(DoubleNear(1e-5), once.mean)));
  EXPECT_EQ(Predict("twice", 20).mean, local.mean) << "the same call again";
}

TEST_F(EngineLocalRowsCpuTest, TheyAreKeptInNoFile) {
  ASSERT_TRUE(engine_->Register("tenant", "twice", "", Numbers(40)).ok());
  Predict("twice", 20);
  EXPECT_EQ(metrics_.encoded_rows, 20);
  engine_.reset();  // ends what would be written
  EXPECT_THAT(FilesBelow(folder_ / "kv"), IsEmpty());
}

}  // namespace
}  // namespace chorale::testing
