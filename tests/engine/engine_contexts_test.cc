// Registration and residency of contexts.
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error_details.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

class EngineContextsTest : public EngineFixture {
 protected:
  // Room for two contexts of ten rows.
  void StartSmall() {
    backend_options_.context_pool_bytes = 1280;
    StartEngine();
    for (const char* name : {"a", "b", "c"}) Register(name);
  }
  absl::Status Draw(const std::string& context) {
    auto recorder = std::make_shared<SampleRecorder>();
    engine_->Sample(call_, SampleOf(context, 1, 1), recorder);
    return recorder->Wait();
  }
};

TEST_F(EngineContextsTest, RegisterDescribesTheContext) {
  StartEngine();
  const auto first = engine_->Register(kTenant, "c", "", MakeDataset(10));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->outcome, PutOutcome::kCreated);
  EXPECT_EQ(first->context.resident_bytes, 640);
  EXPECT_EQ(first->context.state, ContextState::kNotResident);
  EXPECT_EQ(first->context.record.model, "model");
  EXPECT_EQ(first->context.record.rows, 10);
  EXPECT_EQ(first->context.record.columns.size(), 2u);
  EXPECT_EQ(first->context.record.digest.size(), 64u);

  const auto again = engine_->Register(kTenant, "c", "model", MakeDataset(10));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->outcome, PutOutcome::kUnchanged);
  EXPECT_EQ(again->context.record.created, first->context.record.created);
  EXPECT_EQ(engine_->Register(kTenant, "c", "", MakeDataset(10, 5)).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(engine_->ListContexts(kTenant, {10}, "")->contexts.size(), 1u);
  EXPECT_TRUE(engine_->ListContexts("another", {10}, "")->contexts.empty());
}

TEST_F(EngineContextsTest, RegisterRefusesWhatCannotBeEncoded) {
  backend_options_.context_pool_bytes = 640;
  StartEngine();
  EXPECT_EQ(engine_->Register(kTenant, "c", "gone", MakeDataset(10)).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrorField(engine_->Register(kTenant, "No!", "", MakeDataset(10)).status()),
            "context_id");
  EXPECT_EQ(ErrorField(engine_->Register(kTenant, "c", "", MakeDataset(11)).status()), "rows");
  EXPECT_TRUE(engine_->Register(kTenant, "c", "", MakeDataset(10)).ok());
}

TEST_F(EngineContextsTest, MissingCellsAndUsedCategoriesAreCounted) {
  StartEngine();
  Dataset dataset = MakeDataset(4);
  dataset.features.columns[0].numbers[1] = std::nan("");
  dataset.features.columns[1] = {
      "b", ColumnType::kCategorical, {}, {"x", "y", "z"}, {0, 2, kMissingCode, 0}};
  const auto outcome = engine_->Register(kTenant, "c", "", dataset);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const auto& columns = outcome->context.record.columns;
  EXPECT_EQ(columns[0].missing, 1);
  EXPECT_EQ(columns[1].missing, 1);
  EXPECT_EQ(columns[1].categories, 2);
}

TEST_F(EngineContextsTest, OneEncodingForTenRequests) {
  StartEngine();
  Register("c");
  backend_.CloseGate();
  std::vector<std::shared_ptr<SampleRecorder>> recorders;
  for (int i = 0; i < 10; ++i) {
    recorders.push_back(std::make_shared<SampleRecorder>());
    engine_->Sample(call_, SampleOf("c", 2, 2), recorders.back());
  }
  backend_.OpenGate();
  for (auto& recorder : recorders) EXPECT_TRUE(recorder->Wait().ok());
  EXPECT_EQ(backend_.encodings, 1);
  EXPECT_EQ(store_.reads, 1);
  EXPECT_EQ(metrics_.encodings, 1);
  EXPECT_EQ(StateOf("c"), ContextState::kResident);
}

TEST_F(EngineContextsTest, StateFollowsTheEncoding) {
  backend_options_.context_pool_bytes = 640;
  StartEngine();
  Register("c");
  Register("other");
  EXPECT_EQ(StateOf("c"), ContextState::kNotResident);
  backend_.CloseGate();
  Answer<ContextInfo> answer;
  engine_->Warm(call_, {"c"}, answer.callback());
  EXPECT_EVENTUALLY(StateOf("c") == ContextState::kEncoding);
  EXPECT_FALSE(answer.has_come());
  backend_.OpenGate();
  const auto info = answer.Wait();
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->state, ContextState::kResident);
  EXPECT_EQ(info->resident_bytes, 640);
  EXPECT_EQ(engine_->Stats().resident_contexts, 1);
  MakeResident("other");
  EXPECT_EQ(StateOf("c"), ContextState::kNotResident);
  EXPECT_EQ(engine_->Stats().resident_bytes, 640);
}

TEST_F(EngineContextsTest, TheLeastRecentlyUsedGoesFirst) {
  StartSmall();
  MakeResident("a");
  MakeResident("b");
  EXPECT_TRUE(Draw("a").ok());
  MakeResident("c");
  EXPECT_EQ(StateOf("a"), ContextState::kResident);
  EXPECT_EQ(StateOf("b"), ContextState::kNotResident);
  EXPECT_EQ(StateOf("c"), ContextState::kResident);
  EXPECT_EQ(metrics_.evictions, 1);
  EXPECT_EQ(backend_.released_context_bytes, 640);
}

TEST_F(EngineContextsTest, PinnedContextsStayAndTheNextOneWaitsForThem) {
  options_.max_unacknowledged_values = 1;
  StartSmall();
  std::vector<std::shared_ptr<SampleRecorder>> recorders;
  std::vector<std::shared_ptr<Call>> calls;
  for (const char* name : {"a", "b"}) {
    recorders.push_back(std::make_shared<SampleRecorder>());
    calls.push_back(engine_->Sample(call_, SampleOf(name, 1, 8), recorders.back()));
    recorders.back()->WaitForValues(1);  // then it stalls, since nobody acknowledges
  }
  Answer<ContextInfo> third;
  engine_->Warm(call_, {"c"}, third.callback());
  EXPECT_EVENTUALLY(engine_->Stats().queued == 1 && store_.reads == 3);
  absl::SleepFor(absl::Milliseconds(5));
  EXPECT_FALSE(third.has_come());
  EXPECT_EQ(metrics_.evictions, 0);
  calls[1]->Acknowledge(8);
  EXPECT_TRUE(third.Wait().ok());
  EXPECT_EQ(StateOf("a"), ContextState::kResident);
  EXPECT_EQ(StateOf("b"), ContextState::kNotResident);
  EXPECT_EQ(metrics_.evictions, 1);
  EXPECT_FALSE(recorders[0]->is_done());
  calls[0]->Acknowledge(8);
  for (auto& recorder : recorders) EXPECT_TRUE(recorder->Wait().ok());
}

// Nothing but the end of the first Warm tells the engine that there is room for the second.
TEST_F(EngineContextsTest, AWarmThatEndsMakesRoomForTheNext) {
  backend_options_.context_pool_bytes = 640;
  StartEngine();
  Register("a");
  Register("b");
  backend_.CloseGate();
  Answer<ContextInfo> first, second;
  engine_->Warm(call_, {"a"}, first.callback());
  EXPECT_EVENTUALLY(StateOf("a") == ContextState::kEncoding);
  engine_->Warm(call_, {"b"}, second.callback());
  EXPECT_EVENTUALLY(store_.reads == 2);
  backend_.LetThrough(1);
  backend_.OpenGate();
  EXPECT_TRUE(first.Wait().ok());
  const auto info = second.Wait();
  EXPECT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(StateOf("b"), ContextState::kResident);
}

TEST_F(EngineContextsTest, AnEvictedContextIsEncodedAgainWithTheSameResult) {
  StartSmall();
  auto first = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("a", 5, 5), first);
  ASSERT_TRUE(first->Wait().ok());
  MakeResident("b");
  MakeResident("c");
  ASSERT_EQ(StateOf("a"), ContextState::kNotResident);
  auto second = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("a", 5, 5), second);
  ASSERT_TRUE(second->Wait().ok());
  EXPECT_EQ(backend_.encodings, 4);
  EXPECT_EQ(first->ByTarget(5, 5), second->ByTarget(5, 5));
}

TEST_F(EngineContextsTest, DeletedWhileASessionRuns) {
  StartEngine();
  Register("c");
  MakeResident("c");
  backend_.CloseGate();
  auto recorder = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 2, 8), recorder);
  backend_.LetThrough(2);
  ASSERT_TRUE(engine_->DeleteContext(kTenant, "c").ok());
  // New requests do not find it, although its keys and values are still there.
  auto late = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 2, 8), late);
  backend_.LetThrough(1);
  EXPECT_EQ(engine_->Stats().resident_bytes, 640);
  backend_.OpenGate();
  EXPECT_EQ(late->Wait().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(recorder->Wait().ok());
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 0);
  EXPECT_EQ(metrics_.evictions, 0);
  EXPECT_EQ(engine_->DeleteContext(kTenant, "c").code(), absl::StatusCode::kNotFound);
}

TEST_F(EngineContextsTest, ANameRegisteredAgainIsANewContext) {
  StartEngine();
  Register("c", 10, 1);
  MakeResident("c");
  backend_.CloseGate();
  auto on_old = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 2, 8), on_old);
  backend_.LetThrough(1);
  ASSERT_TRUE(engine_->DeleteContext(kTenant, "c").ok());
  Register("c", 20, 2);
  backend_.OpenGate();
  Answer<ContextInfo> fresh;
  engine_->Warm(call_, {"c"}, fresh.callback());
  const auto info = fresh.Wait();
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->record.rows, 20);
  EXPECT_EQ(info->resident_bytes, 1280);
  EXPECT_EQ(backend_.encodings, 2);
  EXPECT_TRUE(on_old->Wait().ok());
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 1280);
}

// A deletion first changes the store, then memory. A registration of the same name between the two
// is not deleted by the second.
TEST_F(EngineContextsTest, ADeletionDoesNotHitTheNextRegistration) {
  Notification committed, go_on;
  store_.after_delete = [&] {
    committed.Notify();
    go_on.Wait();
  };
  StartEngine();
  Register("c", 10, 1);
  std::thread deleter([&] { EXPECT_TRUE(engine_->DeleteContext(kTenant, "c").ok()); });
  committed.Wait();
  std::atomic<bool> registered{false};
  std::thread registrar([&] {
    Register("c", 20, 2);
    MakeResident("c");
    registered = true;
  });
  // Time enough for a registration that does not wait for the deletion.
  for (int i = 0; i < 20 && !registered; ++i) absl::SleepFor(absl::Milliseconds(10));
  go_on.Notify();
  deleter.join();
  registrar.join();
  EXPECT_EQ(StateOf("c"), ContextState::kResident);
}

TEST_F(EngineContextsTest, DeletedWhileItIsRead) {
  StartEngine();
  Register("c");
  store_.HoldReads();
  Answer<ContextInfo> answer;
  engine_->Warm(call_, {"c"}, answer.callback());
  EXPECT_EVENTUALLY(store_.reads == 1);
  ASSERT_TRUE(engine_->DeleteContext(kTenant, "c").ok());
  store_.LetReadsGo();
  EXPECT_EQ(answer.Wait().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(backend_.encodings, 0);
}

TEST_F(EngineContextsTest, AnUnreadableDatasetIsReportedAndTriedAgain) {
  StartEngine();
  Register("c");
  store_.fail_reads = true;
  EXPECT_EQ(Draw("c").code(), absl::StatusCode::kDataLoss);
  store_.fail_reads = false;
  EXPECT_TRUE(Draw("c").ok());
}

// A bad request is refused without reading its context's dataset, be that on disk, in memory, or
// about to be read for another request.
TEST_F(EngineContextsTest, BadRequestsCostNoRead) {
  StartEngine();
  Register("c");
  SampleRequest too_long = SampleOf("c", 1, 17);
  SampleRequest unknown_column = SampleOf("c", 1, 3);
  unknown_column.query_rows.columns[1].name = "z";
  SampleRequest infinite = SampleOf("c", 1, 3);
  infinite.query_rows.columns[0].numbers[2] = std::numeric_limits<double>::infinity();
  LogDensityRequest bad_value = DensityOf("c", 2, 2);
  bad_value.y[3] = std::nan("");
  PredictRequest bad_quantile = PredictOf("c", 2);
  bad_quantile.quantiles = {2};
  const auto refused = [&] {
    std::vector<std::shared_ptr<SampleRecorder>> samples;
    for (const SampleRequest& request : {too_long, unknown_column, infinite}) {
      samples.push_back(std::make_shared<SampleRecorder>());
      engine_->Sample(call_, request, samples.back());
    }
    Answer<LogDensityResult> density;
    engine_->LogDensity(call_, bad_value, density.callback());
    Answer<PredictResult> predict;
    engine_->Predict(call_, bad_quantile, predict.callback());
    return [samples, density, predict]() mutable {
      EXPECT_EQ(ErrorField(samples[0]->Wait()), "rows");
      EXPECT_EQ(ErrorField(samples[1]->Wait()), "rows.columns[\"z\"]");
      EXPECT_EQ(ErrorField(samples[2]->Wait()), "rows.columns[\"a\"].numeric.values[2]");
      EXPECT_EQ(ErrorField(density.Wait().status()), "values[3]");
      EXPECT_EQ(ErrorField(predict.Wait().status()), "quantiles[0]");
    };
  };
  refused()();
  EXPECT_EQ(store_.reads, 0);

  store_.HoldReads();
  auto good = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 1, 1), good);
  EXPECT_EVENTUALLY(store_.reads == 1);
  auto expect_refused = refused();
  store_.LetReadsGo();
  expect_refused();
  EXPECT_TRUE(good->Wait().ok());
  MakeResident("c");
  refused()();
  EXPECT_EQ(store_.reads, 1);
}

// The context is in memory (a session holds it) but was evicted and must be read again.
TEST_F(EngineContextsTest, AnUnreadableDatasetFailsTheRequestsThatWaitForRoom) {
  options_.max_unacknowledged_values = 1;
  StartSmall();
  std::vector<std::shared_ptr<SampleRecorder>> recorders;
  std::vector<std::shared_ptr<Call>> calls;
  for (const char* name : {"a", "b"}) {
    recorders.push_back(std::make_shared<SampleRecorder>());
    calls.push_back(engine_->Sample(call_, SampleOf(name, 1, 8), recorders.back()));
    recorders.back()->WaitForValues(1);  // then it stalls, since nobody acknowledges
  }
  Answer<ContextInfo> waiting;
  engine_->Warm(call_, {"c"}, waiting.callback());
  // One loader and one inbox: when this is answered, c was read and waits for room.
  Answer<ContextInfo> behind;
  engine_->Warm(call_, {"nobody"}, behind.callback());
  EXPECT_EQ(behind.Wait().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_.reads, 3);
  EXPECT_FALSE(waiting.has_come());
  store_.fail_reads = true;
  for (const auto& call : calls) call->Acknowledge(8);
  EXPECT_EQ(waiting.Wait().status().code(), absl::StatusCode::kDataLoss);
  for (const auto& recorder : recorders) EXPECT_TRUE(recorder->Wait().ok());
}

TEST_F(EngineContextsTest, AnEvictedContextComesBackFromTheHost) {
  backend_options_.host_context_pool_bytes = 1280;
  StartSmall();
  for (const char* name : {"a", "b", "c", "a"}) EXPECT_TRUE(Draw(name).ok()) << name;
  EXPECT_EQ(metrics_.encodings, 3);
  EXPECT_EQ(metrics_.restores, 1);
  EXPECT_EQ(metrics_.evictions, 2);
  EXPECT_EQ(engine_->GetContext(kTenant, "a")->state, ContextState::kResident);
  EXPECT_EQ(engine_->GetContext(kTenant, "b")->state, ContextState::kNotResident);
  EXPECT_TRUE(engine_->DeleteContext(kTenant, "b").ok());
  EXPECT_TRUE(Draw("c").ok());
  EXPECT_EQ(metrics_.encodings, 3);
}

TEST_F(EngineContextsTest, TheFirstRequestAfterARegistrationReadsNothing) {
  options_.max_registered_bytes = 1 << 20;
  StartEngine();
  Dataset dataset = MakeDataset(10);
  dataset.y[3] = -0.0;
  dataset.features.columns[0].numbers[1] = std::nan("");
  ASSERT_TRUE(engine_->Register(kTenant, "c", "", dataset).ok());
  EXPECT_TRUE(Draw("c").ok());
  EXPECT_EQ(store_.reads, 0);
  EXPECT_EQ(backend_.encodings, 1);
}

TEST_F(EngineContextsTest, OnlyTheLatestRegistrationsAreHeld) {
  options_.max_registered_bytes = 1 << 14;
  StartEngine();
  Register("large", 4000);
  for (int i = 0; i < 20; ++i) Register(absl::StrCat("small", i), 10);
  EXPECT_TRUE(Draw("small19").ok());
  EXPECT_EQ(store_.reads, 0);
  EXPECT_TRUE(Draw("small0").ok());
  EXPECT_EQ(store_.reads, 1);
  EXPECT_TRUE(Draw("large").ok());
  EXPECT_EQ(store_.reads, 2);
}

TEST_F(EngineContextsTest, ADeletedRegistrationIsNotServed) {
  options_.max_registered_bytes = 1 << 20;
  StartEngine();
  Register("c", 10, 1);
  ASSERT_TRUE(engine_->DeleteContext(kTenant, "c").ok());
  EXPECT_EQ(Draw("c").code(), absl::StatusCode::kNotFound);
  Register("c", 20, 2);
  Answer<ContextInfo> answer;
  engine_->Warm(call_, {"c"}, answer.callback());
  const auto info = answer.Wait();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->record.rows, 20);
  EXPECT_EQ(store_.reads, 0);
}

}  // namespace
}  // namespace chorale::testing
