// Models that come and go while the engine serves.
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/store/context_store.h"
#include "tests/engine/engine_fixture.h"
#include "tests/support/temp_folder.h"

namespace chorale::testing {
namespace {

using ::testing::ElementsAre;

// An engine with two models, "model", the default, and "second".
class EngineModelsTest : public EngineFixture {
 protected:
  void Start() {
    StartEngine();
    ASSERT_TRUE(engine_->AddModel(Second()).ok());
  }
  Model Second(const std::string& digest = "d") const {
    Model model = model_;
    model.name = "second";
    model.digest = digest;
    return model;
  }
  // One that needs the library.
  Model Wide(const std::string& name = "wide") const {
    Model model = model_;
    model.name = name;
    return model;
  }
  absl::Status Create(const std::vector<Model>& models) {
    auto engine = Engine::Create(options_, NewFakeBackend(backend_options_, &backend_),
                                 std::make_unique<FakeStore>(&store_), models, &metrics_);
    if (engine.ok()) engine_ = *std::move(engine);
    return engine.status();
  }

  absl::Status RegisterFor(const std::string& model, const std::string& context) {
    return engine_->Register(kTenant, context, model, MakeDataset(10)).status();
  }
  absl::Status Draw(const std::string& context) {
    auto recorder = std::make_shared<SampleRecorder>();
    engine_->Sample(call_, SampleOf(context, 1, 1), recorder);
    return recorder->Wait();
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const ModelInfo& info : engine_->Models()) {
      EXPECT_EQ(info.is_default, names.empty());
      names.push_back(info.name);
    }
    return names;
  }
  // That requests for a context of "second" are refused.
  void ExpectNotServed(const std::string& context) {
    EXPECT_EQ(Draw(context).code(), absl::StatusCode::kFailedPrecondition);
  }
};

TEST_F(EngineModelsTest, AModelIsAddedWhileASessionRuns) {
  StartEngine();
  Register("c");
  backend_.microseconds_per_step = 100;
  auto recorder = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 1000, 10), recorder);
  recorder->WaitForValues(1);
  EXPECT_TRUE(engine_->AddModel(Second()).ok());
  EXPECT_FALSE(recorder->is_done()) << "it was over too soon: nothing was tested";
  EXPECT_THAT(Names(), ElementsAre("model", "second"));
  backend_.microseconds_per_step = 0;
  EXPECT_TRUE(RegisterFor("second", "d").ok());
  EXPECT_TRUE(Draw("d").ok());
  EXPECT_TRUE(recorder->Wait().ok());
}

TEST_F(EngineModelsTest, ARemovedModelStaysUntilItsLastSessionEnds) {
  Start();
  ASSERT_TRUE(RegisterFor("second", "c").ok());
  MakeResident("c");
  backend_.CloseGate();
  auto running = std::make_shared<SampleRecorder>();
  SampleRequest request = SampleOf("c", 4, 200);
  request.beyond_buffer = BeyondBuffer::kWrap;
  engine_->Sample(call_, std::move(request), running);
  backend_.LetThrough(3);
  running->WaitForValues(1);
  ASSERT_FALSE(running->is_done());

  EXPECT_TRUE(engine_->RemoveModel("second").ok());
  EXPECT_THAT(Names(), ElementsAre("model"));
  EXPECT_EQ(RegisterFor("second", "d").code(), absl::StatusCode::kNotFound);
  // The engine thread has seen the removal once it has answered this.
  auto refused = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 1, 1), refused);
  EXPECT_TRUE(Eventually([&] {
    backend_.LetThrough(1);
    return refused->is_done();
  }));
  EXPECT_EQ(refused->Wait().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(backend_.live_models, 2);
  EXPECT_GT(engine_->Stats().resident_bytes, 0);

  backend_.OpenGate();
  EXPECT_TRUE(running->Wait().ok());
  EXPECT_EQ(running->values(), 800);
  EXPECT_EVENTUALLY(backend_.live_models == 1);
  EXPECT_EQ(backend_.removed_models, 1);
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 0);
  // The context is registered as before.
  EXPECT_EQ(engine_->GetContext(kTenant, "c")->record.model, "second");
}

TEST_F(EngineModelsTest, ASessionThatWaitsForItsEncodingFinishesToo) {
  Start();
  ASSERT_TRUE(RegisterFor("second", "c").ok());
  backend_.CloseGate();
  auto recorder = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 2, 2), recorder);
  EXPECT_EVENTUALLY(StateOf("c") == ContextState::kEncoding);
  EXPECT_TRUE(engine_->RemoveModel("second").ok());
  backend_.OpenGate();
  EXPECT_TRUE(recorder->Wait().ok());
  EXPECT_EVENTUALLY(backend_.live_models == 1);
}

TEST_F(EngineModelsTest, WithoutSessionsTheWeightsGoAtOnce) {
  Start();
  ASSERT_TRUE(RegisterFor("second", "c").ok());
  Register("other");
  MakeResident("c");
  MakeResident("other");
  EXPECT_TRUE(engine_->RemoveModel("second").ok());
  EXPECT_EVENTUALLY(backend_.live_models == 1);
  // Contexts of other models stay.
  EXPECT_EVENTUALLY(engine_->Stats().resident_contexts == 1);
  EXPECT_EQ(StateOf("other"), ContextState::kResident);
  EXPECT_EQ(StateOf("c"), ContextState::kNotResident);
  ExpectNotServed("c");
}

TEST_F(EngineModelsTest, ContextsInHostMemoryGoAsWell) {
  backend_options_.context_pool_bytes = 640;  // one of ten rows
  backend_options_.host_context_pool_bytes = 640;
  Start();
  ASSERT_TRUE(RegisterFor("second", "c").ok());
  Register("other");
  MakeResident("c");
  MakeResident("other");  // "c" is saved
  EXPECT_EQ(backend_.saves, 1);
  EXPECT_TRUE(engine_->RemoveModel("second").ok());
  EXPECT_EVENTUALLY(backend_.live_models == 1);
  ASSERT_TRUE(engine_->AddModel(Second()).ok());
  EXPECT_TRUE(Draw("c").ok());
  EXPECT_EQ(backend_.restores, 0);
}

// Also its data, which were kept for the first request.
TEST_F(EngineModelsTest, ANewRegistrationIsForgottenWithItsModel) {
  options_.max_registered_bytes = 1 << 20;
  Start();
  ASSERT_TRUE(RegisterFor("second", "c").ok());
  EXPECT_TRUE(engine_->RemoveModel("second").ok());
  ExpectNotServed("c");
  ASSERT_TRUE(engine_->AddModel(Second()).ok());
  EXPECT_TRUE(Draw("c").ok());
  EXPECT_EQ(store_.reads, 1);
}

TEST_F(EngineModelsTest, AModelThatComesBackServesItsContextsAgain) {
  Start();
  ASSERT_TRUE(RegisterFor("second", "c").ok());
  for (int round = 1; round <= 3; ++round) {
    EXPECT_TRUE(Draw("c").ok());
    // Keys and values of the earlier weights are not used.
    EXPECT_EQ(backend_.encodings, round);
    EXPECT_TRUE(engine_->RemoveModel("second").ok());
    ExpectNotServed("c");
    EXPECT_TRUE(engine_->AddModel(Second(absl::StrCat("digest ", round))).ok());
    EXPECT_EQ(engine_->Models()[1].digest, absl::StrCat("digest ", round));
  }
  EXPECT_EVENTUALLY(backend_.live_models == 2);
}

TEST_F(EngineModelsTest, TheDefaultCanBeAnotherOne) {
  Start();
  EXPECT_TRUE(engine_->SetDefaultModel("second").ok());
  EXPECT_THAT(Names(), ElementsAre("second", "model"));
  Register("c");
  EXPECT_EQ(engine_->GetContext(kTenant, "c")->record.model, "second");
  EXPECT_EQ(engine_->SetDefaultModel("third").code(), absl::StatusCode::kNotFound);
  // The next one takes its place.
  EXPECT_TRUE(engine_->RemoveModel("second").ok());
  EXPECT_THAT(Names(), ElementsAre("model"));
  Register("d");
  EXPECT_EQ(engine_->GetContext(kTenant, "d")->record.model, "model");
}

TEST_F(EngineModelsTest, WhatCannotBeDoneChangesNothing) {
  Start();
  EXPECT_EQ(engine_->AddModel(Second()).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(engine_->AddModel(Model()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine_->RemoveModel("third").code(), absl::StatusCode::kNotFound);
  backend_.refuse_models = true;
  Model third = Second();
  third.name = "third";
  EXPECT_EQ(engine_->AddModel(third).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Names(), ElementsAre("model", "second"));
  EXPECT_EQ(backend_.live_models, 2);
  EXPECT_TRUE(engine_->RemoveModel("model").ok());
  EXPECT_EQ(engine_->RemoveModel("second").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Names(), ElementsAre("second"));
}

TEST_F(EngineModelsTest, WhatTheMachineLacksIsSkippedAndTheOthersAreServed) {
  backend_.lacks_library = true;
  const absl::Status created = Create({Wide("wide-1"), model_, Wide("wide-2"), Second()});
  ASSERT_TRUE(created.ok()) << created;
  EXPECT_THAT(Names(), ElementsAre("model", "second"));
  const std::vector<SkippedModel> skipped = engine_->SkippedModels();
  ASSERT_EQ(skipped.size(), 2u);
  EXPECT_EQ(skipped[0].name, "wide-1");
  EXPECT_EQ(skipped[1].name, "wide-2");
  EXPECT_EQ(skipped[1].reason, "Install the library.");
  EXPECT_EQ(RegisterFor("wide-1", "w").code(), absl::StatusCode::kNotFound);
  Register("c");  // the default is the first of the others
  EXPECT_EQ(engine_->GetContext(kTenant, "c")->record.model, "model");
  EXPECT_TRUE(Draw("c").ok());
}

TEST_F(EngineModelsTest, WhatTheMachineLackedCanBeAddedOnceItIsThere) {
  StartEngine();
  backend_.lacks_library = true;
  const absl::StatusOr<ModelOutcome> skipped = engine_->AddModel(Wide());
  ASSERT_TRUE(skipped.ok()) << skipped.status();
  EXPECT_EQ(skipped->kind, ModelOutcome::Kind::kSkipped);
  EXPECT_EQ(skipped->reason, "Install the library.");
  EXPECT_THAT(Names(), ElementsAre("model"));
  backend_.lacks_library = false;
  EXPECT_EQ(engine_->AddModel(Wide())->kind, ModelOutcome::Kind::kAdded);
  EXPECT_THAT(Names(), ElementsAre("model", "wide"));
  EXPECT_EQ(engine_->Models()[0].form, "fused");
  EXPECT_EQ(engine_->Models()[1].form, "unfused");
  ASSERT_TRUE(RegisterFor("wide", "c").ok());
  EXPECT_TRUE(Draw("c").ok());
}

TEST_F(EngineModelsTest, AnEngineWithoutAnyModelIsAnError) {
  backend_.lacks_library = true;
  const absl::Status none = Create({Wide("wide-1"), Wide("wide-2")});
  EXPECT_EQ(none.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(none.message(),
            "model 'wide-1' cannot be served: Install the library.\n"
            "model 'wide-2' cannot be served: Install the library.");
  // Other errors are the engine's, whatever else is skipped.
  backend_.refuse_models = true;
  EXPECT_EQ(Create({model_, Wide()}).code(), absl::StatusCode::kResourceExhausted);
}

// Keys and values of a model that is computed by another version of a library have other bits.
TEST_F(EngineModelsTest, FilesOfContextsAreOfOneVersionOfTheLibrary) {
  const TempFolder folder;
  options_.context_files_folder = folder / "kv";
  options_.max_context_file_bytes = 1 << 20;
  backend_options_.host_reaches_contexts = true;
  // A new engine finds the files that the one before has left.
  const auto serve = [&](int64_t version) {
    engine_.reset();
    backend_.library_version = version;
    auto store = OpenSqliteContextStore(folder / "data");
    ASSERT_TRUE(store.ok()) << store.status();
    auto engine = Engine::Create(options_, NewFakeBackend(backend_options_, &backend_),
                                 *std::move(store), {model_, Wide()}, &metrics_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  };
  const auto written = [&] {
    const std::vector<std::string> files = FilesBelow(folder / "kv");
    return files.size() == 1 && absl::EndsWith(files[0], ".kv");
  };
  serve(1);
  ASSERT_TRUE(RegisterFor("wide", "c").ok());
  EXPECT_TRUE(Draw("c").ok());
  EXPECT_EVENTUALLY(written());
  serve(1);
  EXPECT_TRUE(Draw("c").ok());
  EXPECT_EQ(backend_.encodings, 1);
  serve(2);
  EXPECT_TRUE(Draw("c").ok());
  EXPECT_EQ(backend_.encodings, 2);
  engine_.reset();  // before the folder goes
}

TEST_F(EngineModelsTest, AFailedBackendTakesNoModel) {
  StartEngine();
  Register("c");
  backend_.fail = true;
  EXPECT_FALSE(Draw("c").ok());
  EXPECT_EQ(engine_->AddModel(Second()).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(EngineModelsTest, RequestsAndChangesOfModelsDoNotDisturbEachOther) {
  options_.max_registered_bytes = 4 << 10;
  backend_options_.context_pool_bytes = 1280;
  Start();
  Register("steady");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(RegisterFor("second", absl::StrCat("c", i)).ok());
  std::atomic<bool> stop{false};
  std::atomic<int> drawn{0};
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      while (!stop) {
        const absl::Status status = Draw(absl::StrCat("c", i));
        ++(status.ok() ? drawn : refused);
        EXPECT_TRUE(status.ok() || absl::IsFailedPrecondition(status)) << status;
        EXPECT_TRUE(Draw("steady").ok());
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; !stop; ++i) {
      const absl::Status status = RegisterFor("second", absl::StrCat("new", i % 5));
      EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
      engine_->DeleteContext(kTenant, absl::StrCat("new", i % 5)).IgnoreError();
      EXPECT_GE(engine_->Models().size(), 1u);
      engine_->ListContexts(kTenant, {10}, "").status().IgnoreError();
    }
  });
  for (int i = 0; i < 50 || drawn < 10 || refused < 10; ++i) {
    EXPECT_TRUE(engine_->RemoveModel("second").ok());
    EXPECT_TRUE(engine_->AddModel(Second()).ok());
    if (drawn < 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EVENTUALLY(backend_.live_models == 2);
}

}  // namespace
}  // namespace chorale::testing
