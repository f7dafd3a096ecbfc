// Contexts that are reduced to memory sets.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "engine/api/engine.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/context_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"
#include "tests/support/temp_folder.h"

namespace chorale::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

constexpr int64_t kKeyBytes = 64 + 8;  // of a key and its weight, on the fake backend

class EngineMemorySetsTest : public EngineFixture {
 protected:
  static Dataset Reduced(int64_t rows, const MemorySet& memory, uint64_t seed = 1) {
    Dataset dataset = MakeDataset(rows, seed);
    dataset.memory = memory;
    return dataset;
  }
  enum class How { kCreate, kReplace, kValidate };
  absl::StatusOr<RegisterOutcome> Register(const Dataset& dataset, How how = How::kCreate) {
    const RegisterRequest request = {.context = "c",
                                     .model = "",
                                     .validate_only = how == How::kValidate,
                                     .replace = how == How::kReplace};
    return engine_->Register(kTenant, request, dataset, StoreQuota());
  }
  absl::Status Draw(const SampleRequest& request) {
    auto recorder = std::make_shared<SampleRecorder>();
    engine_->Sample(call_, request, recorder);
    return recorder->Wait();
  }
  absl::Status Warm(const std::string& name, Residency residency = Residency::kUntilEvicted) {
    Answer<ContextInfo> answer;
    engine_->Warm(call_, {.context = name, .residency = residency}, answer.callback());
    return answer.Wait().status();
  }
  int64_t KeysOf(MemoryPolicy policy) const {
    return metrics_.memory_set_keys[static_cast<size_t>(policy)];
  }

  // An engine with a store on the disk, whose contexts outlive it, and with files. A test resets it
  // at its end.
  void StartEngineOnDisk() {
    backend_options_.host_reaches_contexts = true;
    options_.context_files_folder = folder_ / "kv";
    options_.max_context_file_bytes = 1 << 20;
    auto engine = Engine::Create(options_, NewFakeBackend(backend_options_, &backend_),
                                 *OpenSqliteContextStore(folder_ / "store"), {model_}, &metrics_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  // Whether a context is completely written to a file.
  bool HasFile() const {
    const std::vector<std::string> files = FilesBelow(folder_ / "kv");
    return files.size() == 1 && absl::EndsWith(files[0], ".kv");
  }

  const TempFolder folder_;
};

void ExpectUnsupported(const absl::Status& status, const std::string& field,
                       const std::string& way_out) {
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(ErrorReasonOf(status), "MEMORY_SET_UNSUPPORTED");
  EXPECT_EQ(ErrorField(status), field);
  EXPECT_THAT(std::string(status.message()), HasSubstr(way_out));
}

TEST_F(EngineMemorySetsTest, AllRowsAreEncodedAndTheKeysOfTheSetStay) {
  StartEngine();
  const auto registered = Register(Reduced(100, {64, MemoryPolicy::kHeavy}));
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->context.resident_bytes, 64 * kKeyBytes);
  EXPECT_EQ(registered->context.record.memory, (MemorySet{64, MemoryPolicy::kHeavy}));
  ASSERT_TRUE(Draw(SampleOf("c", 2, 3)).ok());
  EXPECT_EQ(engine_->Stats().resident_bytes, 64 * kKeyBytes);
  EXPECT_EQ(metrics_.encoded_rows, 100);
  EXPECT_EQ(KeysOf(MemoryPolicy::kHeavy), 64);
  EXPECT_EQ(KeysOf(MemoryPolicy::kMerge) + KeysOf(MemoryPolicy::kSample), 0);

  const auto listed = engine_->ListContexts(kTenant, {10}, "");
  ASSERT_EQ(listed->contexts.size(), 1);
  EXPECT_EQ(listed->contexts[0].resident_bytes, 64 * kKeyBytes);
  EXPECT_EQ(listed->contexts[0].record.memory, registered->context.record.memory);
}

TEST_F(EngineMemorySetsTest, TheSeedOfTheEncodingDependsOnTheContentAlone) {
  StartEngine();
  const MemorySet memory = {64, MemoryPolicy::kSample};
  for (const char* name : {"first", "second"}) {
    ASSERT_TRUE(engine_->Register(kTenant, name, "", Reduced(100, memory)).ok());
    MakeResident(name);
  }
  ASSERT_TRUE(engine_->Register(kTenant, "third", "", Reduced(100, memory, 2)).ok());
  MakeResident("third");
  const std::string digest = engine_->GetContext(kTenant, "first")->record.digest;
  const std::vector<FakeEncoding> encodings = backend_.all_encodings();
  ASSERT_EQ(encodings.size(), 3);
  EXPECT_EQ(encodings[0], (FakeEncoding{{100, memory}, ContentSeed("memory set", digest)}));
  EXPECT_EQ(encodings[1], encodings[0]);
  EXPECT_EQ(encodings[2].shape, encodings[0].shape);
  EXPECT_NE(encodings[2].seed, encodings[0].seed);
}

TEST_F(EngineMemorySetsTest, TheSetIsPartOfTheContent) {
  StartEngine();
  const auto registered = Register(Reduced(100, {64, MemoryPolicy::kMerge}));
  ASSERT_TRUE(registered.ok());
  EXPECT_EQ(Register(Reduced(100, {64, MemoryPolicy::kMerge}))->outcome, PutOutcome::kUnchanged);
  for (const MemorySet& other :
       {MemorySet{}, MemorySet{72, MemoryPolicy::kMerge}, MemorySet{64, MemoryPolicy::kHeavy}}) {
    EXPECT_EQ(Register(Reduced(100, other)).status().code(), absl::StatusCode::kAlreadyExists);
  }
  const auto replaced = Register(Reduced(100, {72, MemoryPolicy::kSample}), How::kReplace);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_EQ(replaced->outcome, PutOutcome::kReplaced);
  EXPECT_NE(replaced->context.record.digest, registered->context.record.digest);
  EXPECT_EQ(replaced->context.resident_bytes, 72 * kKeyBytes);
  EXPECT_EQ(engine_->GetContext(kTenant, "c")->record.memory,
            (MemorySet{72, MemoryPolicy::kSample}));
}

// Also on a backend without memory sets.
TEST_F(EngineMemorySetsTest, NoFewerKeysThanRowsAreTheContextAsItIs) {
  backend_options_.memory_sets = false;
  StartEngine();
  for (const int64_t memory_rows : {100, 101, 1'000'000}) {
    const std::string name = absl::StrCat("c", memory_rows);
    const auto registered =
        engine_->Register(kTenant, name, "", Reduced(100, {memory_rows, MemoryPolicy::kMerge}));
    ASSERT_TRUE(registered.ok()) << registered.status();
    EXPECT_EQ(registered->context.resident_bytes, 100 * 64);
    EXPECT_EQ(registered->context.record.memory.rows, memory_rows);
    EXPECT_TRUE(Draw(SampleOf(name, 2, 3)).ok());
  }
  EXPECT_EQ(KeysOf(MemoryPolicy::kMerge), 0);
}

TEST_F(EngineMemorySetsTest, InvalidSetsAreRefused) {
  StartEngine();
  for (const int64_t memory_rows : {-1, 1, 63}) {
    EXPECT_EQ(ErrorField(Register(Reduced(100, {memory_rows})).status()), "memory_row_count");
  }
  EXPECT_EQ(ErrorField(Register(Reduced(100, {0, MemoryPolicy::kHeavy})).status()),
            "memory_policy");
  EXPECT_EQ(ErrorField(Register(Reduced(100, {64, static_cast<MemoryPolicy>(9)})).status()),
            "memory_policy");
}

TEST_F(EngineMemorySetsTest, TheKeysMustFitIntoTheContextPool) {
  backend_options_.context_pool_bytes = 64 * kKeyBytes;
  StartEngine();
  EXPECT_EQ(ErrorField(Register(Reduced(100, {65})).status()), "rows");
  EXPECT_EQ(ErrorField(Register(Reduced(100, {})).status()), "rows");
  EXPECT_TRUE(Register(Reduced(100, {64})).ok());
  EXPECT_TRUE(Draw(SampleOf("c", 2, 3)).ok());
}

// The size of the context by its keys decides about the quota, and not its rows.
TEST_F(EngineMemorySetsTest, TheKeysCountForTheQuotaOfTheTenant) {
  StartEngine();
  ASSERT_TRUE(engine_->Register(kTenant, "whole", "", Reduced(100, {})).ok());
  ASSERT_TRUE(engine_->Register(kTenant, "reduced", "", Reduced(100, {64})).ok());
  CallContext call = call_;
  call.max_resident_bytes = 64 * kKeyBytes;
  const auto warm = [&](const std::string& name) {
    Answer<ContextInfo> answer;
    engine_->Warm(call, {.context = name}, answer.callback());
    return answer.Wait().status();
  };
  EXPECT_EQ(ExceededQuota(warm("whole")), "max_resident_mib");
  EXPECT_TRUE(warm("reduced").ok());
  call.max_resident_bytes -= 1;
  EXPECT_EQ(ExceededQuota(warm("reduced")), "max_resident_mib");
}

TEST_F(EngineMemorySetsTest, APinnedContextStaysPinnedWithAnotherSet) {
  backend_options_.context_pool_bytes = 2 * 100 * 64;  // of two contexts with all rows
  StartEngine();
  ASSERT_TRUE(Register(Reduced(100, {})).ok());
  for (const char* name : {"d", "e"}) {
    ASSERT_TRUE(engine_->Register(kTenant, name, "", Reduced(100, {}, name[0])).ok());
  }
  ASSERT_TRUE(Warm("c", Residency::kPinned).ok());
  ASSERT_TRUE(Register(Reduced(100, {64, MemoryPolicy::kHeavy}), How::kReplace).ok());
  EXPECT_EVENTUALLY(StateOf("c") == ContextState::kResident);
  for (const char* name : {"d", "e", "d"}) MakeResident(name);
  EXPECT_EQ(StateOf("c"), ContextState::kResident) << "it was evicted";
  EXPECT_EVENTUALLY(engine_->Stats().contexts.pinned_bytes == 64 * kKeyBytes);
  EXPECT_TRUE(engine_->DeleteContext(kTenant, "c").ok());
}

TEST_F(EngineMemorySetsTest, ARegistrationThatChangesDetailsKeepsTheSet) {
  StartEngine();
  const Dataset reduced = Reduced(100, {64, MemoryPolicy::kSample});
  ASSERT_TRUE(Register(reduced).ok());
  MakeResident("c");
  const auto again = engine_->Register(
      kTenant, {.context = "c", .model = "", .description = "described"}, reduced, StoreQuota());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->outcome, PutOutcome::kUnchanged);
  const auto context = engine_->GetContext(kTenant, "c");
  EXPECT_EQ(context->record.details.description, "described");
  EXPECT_EQ(context->record.memory, (MemorySet{64, MemoryPolicy::kSample}));
  EXPECT_EQ(context->resident_bytes, 64 * kKeyBytes);
  EXPECT_TRUE(Draw(SampleOf("c", 2, 3)).ok());
  EXPECT_EQ(backend_.encodings, 1);
}

TEST_F(EngineMemorySetsTest, AnEstimateHasTheBytesOfTheSet) {
  backend_options_.encode_pool_bytes = 1 << 20;
  backend_options_.encode_bytes_per_row = 100;
  StartEngine();
  const auto validated = Register(Reduced(100, {64}), How::kValidate);
  ASSERT_TRUE(validated.ok()) << validated.status();
  EXPECT_EQ(validated->estimate->device_bytes, 64 * (kKeyBytes + 100));
  EXPECT_EQ(validated->context.record.memory, (MemorySet{64}));
}

TEST_F(EngineMemorySetsTest, ADeviceWithoutThemRefusesRegistrations) {
  backend_options_.memory_sets = false;
  StartEngine();
  const Dataset reduced = Reduced(100, {64});
  const auto expect_refused = [](const absl::StatusOr<RegisterOutcome>& outcome) {
    ExpectUnsupported(outcome.status(), "spec.memory_row_count", "is 64");
    ExpectUnsupported(outcome.status(), "spec.memory_row_count", "or to at least 100, the number");
  };
  EXPECT_FALSE(engine_->memory_sets());
  expect_refused(Register(reduced));
  expect_refused(Register(reduced, How::kValidate));
  ASSERT_TRUE(Register(Reduced(100, {})).ok());
  expect_refused(Register(reduced, How::kReplace));
  EXPECT_EQ(engine_->GetContext(kTenant, "c")->record.memory, MemorySet());
  EXPECT_TRUE(Draw(SampleOf("c", 2, 3)).ok()) << "the earlier context serves";
}

TEST_F(EngineMemorySetsTest, ADeviceWithoutThemListsThoseOfItsStore) {
  StartEngineOnDisk();
  EXPECT_TRUE(engine_->memory_sets());
  ASSERT_TRUE(Register(Reduced(100, {64, MemoryPolicy::kSample})).ok());
  engine_.reset();
  backend_options_.memory_sets = false;
  StartEngineOnDisk();
  const auto listed = engine_->ListContexts(kTenant, {10}, "");
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->contexts.size(), 1);
  EXPECT_EQ(listed->contexts[0].record.memory, (MemorySet{64, MemoryPolicy::kSample}));
  EXPECT_EQ(listed->contexts[0].resident_bytes, 0);
  EXPECT_EQ(engine_->NewestContexts(10)->front().resident_bytes, 0) << "a start does not warm it";
  const char kUseLocalRows[] = "set local_row_count, or use a server on a CPU";
  ExpectUnsupported(Draw(SampleOf("c", 2, 3)), "context", kUseLocalRows);
  for (const Residency residency : {Residency::kUntilEvicted, Residency::kPinned}) {
    ExpectUnsupported(Warm("c", residency), "name", "not support; use a server on a CPU");
  }
  Answer<PredictResult> predicted;
  engine_->Predict(call_, PredictOf("c", 3), predicted.callback());
  ExpectUnsupported(predicted.Wait().status(), "context", kUseLocalRows);
  Answer<LogDensityResult> evaluated;
  engine_->LogDensity(call_, DensityOf("c", 2, 3), evaluated.callback());
  ExpectUnsupported(evaluated.Wait().status(), "context", kUseLocalRows);
  SampleRequest local = SampleOf("c", 2, 3);
  local.local_rows = 10;
  EXPECT_TRUE(Draw(local).ok()) << "these need no memory set";
  EXPECT_TRUE(engine_->DeleteContext(kTenant, "c").ok());
  engine_.reset();
}

TEST_F(EngineMemorySetsTest, LocalRowsAreRowsOfTheTable) {
  StartEngine();
  ASSERT_TRUE(Register(Reduced(300, {64})).ok());
  SampleRequest local = SampleOf("c", 2, 3);
  local.local_rows = 200;
  ASSERT_TRUE(Draw(local).ok());
  EXPECT_THAT(backend_.all_encodings(),
              ElementsAre(Field(&FakeEncoding::shape, ContextShape{.rows = 200})));
  EXPECT_EQ(KeysOf(MemoryPolicy::kMerge), 0);
  local.local_rows = 300;  // all rows: the context as it is
  ASSERT_TRUE(Draw(local).ok());
  EXPECT_EQ(backend_.all_encodings().back().shape, (ContextShape{.rows = 300, .memory = {64}}));
}

TEST_F(EngineMemorySetsTest, AWarningCountsTheRowsOfTheTable) {
  model_.config.trained_rows = 80;
  StartEngine();
  const auto registered = Register(Reduced(100, {64}));
  ASSERT_TRUE(registered.ok());
  const auto counts_all_rows =
      Contains(Field(&ColumnNote::beyond_training, HasSubstr("the context has 100 rows")));
  EXPECT_THAT(registered->notes, counts_all_rows);
  Answer<PredictResult> predicted;
  engine_->Predict(call_, PredictOf("c", 3), predicted.callback());
  const auto result = predicted.Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->notes, counts_all_rows);
}

// The fake backend checks that a restored context has the keys and values of its shape.
TEST_F(EngineMemorySetsTest, HostMemoryHoldsTheSet) {
  backend_options_.context_pool_bytes = 64 * kKeyBytes;
  backend_options_.host_context_pool_bytes = 2 * 64 * kKeyBytes;
  StartEngine();
  for (const char* name : {"a", "b"}) {
    ASSERT_TRUE(engine_->Register(kTenant, name, "", Reduced(100, {64}, name[0])).ok());
  }
  for (const char* name : {"a", "b", "a", "b"}) EXPECT_TRUE(Draw(SampleOf(name, 2, 3)).ok());
  EXPECT_EQ(metrics_.restores, 2);
  EXPECT_EQ(backend_.encodings, 2);
}

TEST_F(EngineMemorySetsTest, AFileHoldsTheSet) {
  StartEngineOnDisk();
  ASSERT_TRUE(Register(Reduced(100, {64, MemoryPolicy::kHeavy})).ok());
  ASSERT_TRUE(Draw(SampleOf("c", 2, 3)).ok());
  EXPECT_EVENTUALLY(HasFile());
  engine_.reset();
  StartEngineOnDisk();
  EXPECT_TRUE(Draw(SampleOf("c", 2, 3)).ok());
  EXPECT_EQ(metrics_.restores, 1);
  EXPECT_EQ(backend_.encodings, 1);
  engine_.reset();
}

}  // namespace
}  // namespace chorale::testing
