// Contexts with appended rows that are encoded anew as a whole.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "engine/data/dataset_codec.h"
#include "tests/engine/appended_rows.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

class EngineEncodeAnewTest : public AppendFixture {
 protected:
  int64_t Outcomes(EncodedAnewOutcome outcome) const {
    return metrics_.encoded_anew[static_cast<size_t>(outcome)];
  }
  std::shared_ptr<Call> WarmAnew(const std::string& name, Answer<ContextInfo>* answer,
                                 Residency residency = Residency::kUntilEvicted) {
    return engine_->Warm(call_, {.context = name, .residency = residency, .encode_anew = true},
                         answer->callback());
  }
  static std::string DigestOf(const Dataset& dataset) {
    return ContentDigest(EncodeDataset(dataset));
  }
  // A context of ten rows, of which three were appended, that is being encoded anew, step by step,
  // for a call. Returns the digest of its content.
  std::string BeginEncoding(Answer<ContextInfo>* answer) {
    options_.max_appended_share = 1000;
    backend_options_.encode_steps = 200;
    StartEngine();
    Model other = model_;
    other.name = "other";
    EXPECT_TRUE(engine_->AddModel(other).ok());
    Register("c");
    MustAppend("c", 3, 5);
    MakeResident("c");
    backend_.CloseGate();
    const int64_t encodings = backend_.encodings;
    WarmAnew("c", answer);
    EXPECT_EVENTUALLY(backend_.encodings > encodings);
    return Record("c").digest;
  }
  const Dataset all_ = Joined(MakeDataset(10), MakeDataset(3, 5));
};

TEST_F(EngineEncodeAnewTest, ManyAppendedRowsAreEncodedAnewInTheBackground) {
  StartEngine();
  Register("c");
  MakeResident("c");
  MustAppend("c", 2, 5);
  EXPECT_EVENTUALLY(StateOf("c") == ContextState::kResident);
  EXPECT_EQ(Record("c").appended_rows, 2) << "a fifth";
  const ContextRecord before = Record("c");
  MustAppend("c", 1, 6);
  EXPECT_EVENTUALLY(Outcomes(EncodedAnewOutcome::kReplaced) == 1);
  const ContextRecord record = Record("c");
  EXPECT_EQ(record.appended_rows, 0);
  EXPECT_EQ(record.rows, 13);
  EXPECT_EQ(record.created, before.created);
  const Dataset all = Joined(Joined(MakeDataset(10), MakeDataset(2, 5)), MakeDataset(1, 6));
  EXPECT_EQ(record.digest, DigestOf(all));
  EXPECT_EQ(StateOf("c"), ContextState::kResident) << "no call waits for the encoding";
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 13 * 64);
  const FakeEncoding encoding = backend_.all_encodings().back();
  EXPECT_TRUE(encoding.append_starts.empty());
  const int64_t encodings = backend_.encodings;
  EXPECT_EQ(Answering("c"), record.digest);
  EXPECT_EQ(backend_.encodings, encodings);
  // It is a registration of all rows.
  EXPECT_EQ(engine_->Register(kTenant, "c", "", all)->outcome, PutOutcome::kUnchanged);
}

TEST_F(EngineEncodeAnewTest, ManyAppendsAreEncodedAnew) {
  options_.max_appended_share = 1000;
  StartEngine();
  Register("c");
  MakeResident("c");
  for (uint64_t i = 0; i < 64; ++i) MustAppend("c", 1, i + 5);
  EXPECT_EQ(Answering("c"), Record("c").digest);
  EXPECT_EQ(Record("c").appended_rows, 64);
  MustAppend("c", 1, 77);
  // The store has the new record a moment before the new encoding serves.
  EXPECT_EVENTUALLY(Outcomes(EncodedAnewOutcome::kReplaced) == 1);
  EXPECT_EQ(Record("c").appended_rows, 0);
  EXPECT_EQ(Answering("c"), Record("c").digest);
}

TEST_F(EngineEncodeAnewTest, ACallMayAskForIt) {
  options_.max_appended_share = 1000;
  StartEngine();
  Register("c");
  MustAppend("c", 3, 5);
  for (const bool resident : {false, true}) {
    if (resident) {
      MakeResident("c");
      MustAppend("c", 1, 6);
    }
    Answer<ContextInfo> answer;
    WarmAnew("c", &answer);
    const auto info = answer.Wait();
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->record.appended_rows, 0);
    EXPECT_EQ(info->record.digest, Record("c").digest);
    EXPECT_EQ(info->state, ContextState::kResident);
    EXPECT_EQ(StateOf("c"), ContextState::kResident);
  }
  EXPECT_EQ(backend_.encodings, 1 + 1 + 1) << "all rows, the appended row, all rows";
  EXPECT_EQ(Outcomes(EncodedAnewOutcome::kReplaced), 2);
  Answer<ContextInfo> again;
  WarmAnew("c", &again);
  EXPECT_TRUE(again.Wait().ok());
  EXPECT_EQ(backend_.encodings, 3) << "there is nothing to do";
  EXPECT_EQ(Outcomes(EncodedAnewOutcome::kReplaced), 2);
  Answer<ContextInfo> none;
  WarmAnew("none", &none);
  EXPECT_EQ(none.Wait().status().code(), absl::StatusCode::kNotFound);
}

TEST_F(EngineEncodeAnewTest, TheOldContentServesMeanwhile) {
  Answer<ContextInfo> answer;
  const std::string old = BeginEncoding(&answer);
  auto sample = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 1, 2), sample);
  EXPECT_TRUE(Eventually([&] {
    backend_.LetThrough(1);
    return sample->is_done();
  }));
  ASSERT_TRUE(sample->Wait().ok());
  EXPECT_EQ(sample->summary().source.context_digest, old);
  EXPECT_FALSE(answer.has_come());
  EXPECT_EQ(Record("c").digest, old);
  backend_.OpenGate();
  ASSERT_TRUE(answer.Wait().ok());
  EXPECT_EQ(Answering("c"), DigestOf(all_));
}

TEST_F(EngineEncodeAnewTest, RowsAppendedMeanwhileAreKept) {
  Answer<ContextInfo> answer;
  BeginEncoding(&answer);
  MustAppend("c", 2, 6);
  MustAppend("c", 1, 7);
  backend_.OpenGate();
  const auto info = answer.Wait();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->record.rows, 16);
  EXPECT_EQ(info->record.appended_rows, 3);
  Dataset expected = Joined(Joined(all_, MakeDataset(2, 6)), MakeDataset(1, 7));
  expected.append_starts = {13, 15};
  EXPECT_EQ(info->record.digest, DigestOf(expected));
  EXPECT_EQ(Answering("c"), info->record.digest);
  const FakeEncoding encoding = backend_.all_encodings().back();
  EXPECT_EQ(encoding.append_starts, expected.append_starts);
  EXPECT_EQ(encoding.prefix_rows, 13) << "what was encoded anew is not encoded again";
  EXPECT_EQ(Outcomes(EncodedAnewOutcome::kReplaced), 1);
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 16 * 64);
}

// The cache is purged while the content with the rows that were appended meanwhile is stored.
TEST_F(EngineEncodeAnewTest, WhatWasEncodedAnewStaysUntilItIsThePrefix) {
  std::atomic<bool> armed{false};
  store_.after_put = [&](const ContextRecord&) {
    if (!armed.exchange(false)) return;
    EXPECT_TRUE(engine_->RemoveModel("other").ok());
    EXPECT_EVENTUALLY(backend_.removed_models == 1);
  };
  Answer<ContextInfo> answer;
  BeginEncoding(&answer);
  MustAppend("c", 2, 6);
  armed = true;
  backend_.OpenGate();
  ASSERT_TRUE(answer.Wait().ok());
  EXPECT_FALSE(armed);
  EXPECT_EQ(Answering("c"), Record("c").digest);
  EXPECT_EQ(Record("c").appended_rows, 2);
  EXPECT_EQ(backend_.all_encodings().back().prefix_rows, 13);
}

TEST_F(EngineEncodeAnewTest, DetailsSetMeanwhileAreKept) {
  Answer<ContextInfo> answer;
  BeginEncoding(&answer);
  Dataset content = all_;
  content.append_starts = {10};
  RegisterRequest request{.context = "c", .model = ""};
  request.description = "changed";
  ASSERT_TRUE(engine_->Register(kTenant, request, content, StoreQuota()).ok());
  backend_.OpenGate();
  const auto info = answer.Wait();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->record.details.description, "changed");
  EXPECT_EQ(Record("c").details.description, "changed");
  EXPECT_EQ(Record("c").digest, DigestOf(all_));
}

TEST_F(EngineEncodeAnewTest, ContentThatWasReplacedMeanwhileStays) {
  Answer<ContextInfo> answer;
  BeginEncoding(&answer);
  const RegisterRequest replace{.context = "c", .model = "", .replace = true};
  ASSERT_TRUE(engine_->Register(kTenant, replace, MakeDataset(20, 9), StoreQuota()).ok());
  backend_.OpenGate();
  ASSERT_TRUE(answer.Wait().ok()) << "there is nothing more to do";
  EXPECT_EQ(Record("c").digest, DigestOf(MakeDataset(20, 9)));
  EXPECT_EQ(Outcomes(EncodedAnewOutcome::kReplaced), 0);
  EXPECT_EQ(Outcomes(EncodedAnewOutcome::kChanged), 1);
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 20 * 64);
}

// The same rows were registered and appended again: the content is the same, the context is not.
TEST_F(EngineEncodeAnewTest, ItBeginsAgainForACallIfTheContextIsAnother) {
  Answer<ContextInfo> answer;
  BeginEncoding(&answer);
  ASSERT_TRUE(engine_->DeleteContext(kTenant, "c").ok());
  Register("c");
  MustAppend("c", 3, 5);
  backend_.OpenGate();
  const auto info = answer.Wait();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->record.digest, DigestOf(all_));
  EXPECT_EQ(Outcomes(EncodedAnewOutcome::kChanged), 1);
  EXPECT_EQ(Outcomes(EncodedAnewOutcome::kReplaced), 1);
}

TEST_F(EngineEncodeAnewTest, AContextThatWasDeletedMeanwhileStaysDeleted) {
  Answer<ContextInfo> answer;
  BeginEncoding(&answer);
  ASSERT_TRUE(engine_->DeleteContext(kTenant, "c").ok());
  backend_.OpenGate();
  EXPECT_EQ(answer.Wait().status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(engine_->GetContext(kTenant, "c").ok());
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 0);
}

TEST_F(EngineEncodeAnewTest, RequestsForOneContextAreCombined) {
  Answer<ContextInfo> answer;
  BeginEncoding(&answer);
  const int64_t encodings = backend_.encodings;
  MustAppend("c", 1, 6);
  std::vector<Answer<ContextInfo>> others(5);
  for (Answer<ContextInfo>& other : others) WarmAnew("c", &other);
  backend_.OpenGate();
  EXPECT_TRUE(answer.Wait().ok());
  for (Answer<ContextInfo>& other : others) {
    EXPECT_EQ(other.Wait()->record.appended_rows, 0) << "the row was appended before the call";
  }
  // The row that was appended twice, to the old content and the new, and all rows once.
  EXPECT_LE(backend_.encodings, encodings + 3);
  EXPECT_EQ(Outcomes(EncodedAnewOutcome::kReplaced), 2);
}

TEST_F(EngineEncodeAnewTest, ACallMayEndBeforeTheEncoding) {
  options_.max_appended_share = 1000;
  backend_options_.encode_steps = 200;
  StartEngine();
  Register("c");
  MustAppend("c", 3, 5);
  MakeResident("c");
  backend_.CloseGate();
  Answer<ContextInfo> answer;
  const auto call = WarmAnew("c", &answer);
  EXPECT_EVENTUALLY(engine_->Stats().contexts.encoding > 0);
  call->Cancel();
  backend_.LetThrough(2);
  EXPECT_EQ(answer.Wait().status().code(), absl::StatusCode::kCancelled);
  backend_.OpenGate();
  EXPECT_EVENTUALLY(Record("c").appended_rows == 0);
}

TEST_F(EngineEncodeAnewTest, ItTakesLongerThanACallMayQueue) {
  options_.max_queue_wait = absl::Seconds(10);
  Answer<ContextInfo> answer;
  backend_.step_time = absl::Seconds(1);
  BeginEncoding(&answer);
  backend_.OpenGate();
  EXPECT_TRUE(answer.Wait().ok());
}

TEST_F(EngineEncodeAnewTest, APinnedContextStaysPinned) {
  backend_options_.context_pool_bytes = 26 * 64;
  options_.max_appended_share = 1000;
  StartEngine();
  for (const char* name : {"c", "d", "e"}) Register(name);
  MustAppend("c", 3, 5);
  Answer<ContextInfo> pinned;
  engine_->Warm(call_, {.context = "c", .residency = Residency::kPinned}, pinned.callback());
  ASSERT_TRUE(pinned.Wait().ok());
  Answer<ContextInfo> answer;
  WarmAnew("c", &answer);
  ASSERT_TRUE(answer.Wait().ok());
  for (const char* name : {"d", "e", "d"}) MakeResident(name);
  EXPECT_EQ(StateOf("c"), ContextState::kResident) << "it was evicted";
  EXPECT_EQ(Record("c").appended_rows, 0);
}

TEST_F(EngineEncodeAnewTest, AContextThatIsNotPinnedIsEvictedAsBefore) {
  backend_options_.context_pool_bytes = 26 * 64;
  options_.max_appended_share = 1000;
  StartEngine();
  for (const char* name : {"c", "d", "e"}) Register(name);
  MustAppend("c", 3, 5);
  MakeResident("c");
  Answer<ContextInfo> answer;
  WarmAnew("c", &answer);
  ASSERT_TRUE(answer.Wait().ok());
  for (const char* name : {"d", "e"}) MakeResident(name);
  EXPECT_EQ(StateOf("c"), ContextState::kNotResident);
  EXPECT_EQ(Answering("c"), DigestOf(all_));
}

// The pool holds a pinned context, but not two encodings of it.
TEST_F(EngineEncodeAnewTest, WithoutRoomTheContextStaysAsItIs) {
  backend_options_.context_pool_bytes = 20 * 64;
  options_.max_appended_share = 1000;
  StartEngine();
  Register("c");
  MustAppend("c", 3, 5);
  Answer<ContextInfo> pinned;
  engine_->Warm(call_, {.context = "c", .residency = Residency::kPinned}, pinned.callback());
  ASSERT_TRUE(pinned.Wait().ok());
  const std::string digest = Record("c").digest;
  Answer<ContextInfo> answer;
  WarmAnew("c", &answer);
  EXPECT_EVENTUALLY(engine_->Stats().contexts.waiting == 1);
  EXPECT_TRUE(SkipUntil(absl::Hours(1), [&] { return answer.has_come(); }));
  EXPECT_EQ(ErrorReasonOf(answer.Wait().status()), "MEMORY_FULL");
  EXPECT_EQ(Outcomes(EncodedAnewOutcome::kFailed), 1);
  EXPECT_EQ(Answering("c"), digest);
  EXPECT_EQ(engine_->Stats().resident_bytes, 13 * 64);
}

TEST_F(EngineEncodeAnewTest, AStoreThatFailsKeepsTheContext) {
  options_.max_appended_share = 1000;
  StartEngine();
  Register("c");
  MustAppend("c", 3, 5);
  store_.fail_reads = true;
  Answer<ContextInfo> answer;
  WarmAnew("c", &answer);
  EXPECT_EQ(answer.Wait().status().code(), absl::StatusCode::kDataLoss);
  store_.fail_reads = false;
  EXPECT_EQ(Answering("c"), Record("c").digest);
  EXPECT_EQ(Record("c").appended_rows, 3);
  EXPECT_EQ(Outcomes(EncodedAnewOutcome::kFailed), 1);
}

TEST_F(EngineEncodeAnewTest, ADrainDoesNotWaitForTheBackground) {
  backend_options_.encode_steps = 200;
  StartEngine();
  Register("c");
  MakeResident("c");
  backend_.CloseGate();
  const int64_t encodings = backend_.encodings;
  MustAppend("c", 5, 5);
  EXPECT_TRUE(Eventually([&] {
    if (backend_.encodings > encodings) backend_.LetThrough(1);
    return backend_.encodings == encodings + 2;
  })) << "of the appended rows, and of all rows";
  std::thread drain([this] { engine_->Drain(clock_.Now() + absl::Hours(1)); });
  EXPECT_EVENTUALLY(ErrorReasonOf(Append({.context = "none"}, NewRows(1, 5)).status()) ==
                    "DRAINING");
  backend_.LetThrough(3);
  drain.join();
  EXPECT_EQ(Outcomes(EncodedAnewOutcome::kReplaced), 0);
  backend_.OpenGate();
  EXPECT_EVENTUALLY(Outcomes(EncodedAnewOutcome::kFailed) == 1);
  EXPECT_EQ(Record("c").appended_rows, 5);
}

TEST_F(EngineEncodeAnewTest, ADrainWaitsForACall) {
  Answer<ContextInfo> answer;
  BeginEncoding(&answer);
  std::thread drain([this] { engine_->Drain(clock_.Now() + absl::Hours(1)); });
  EXPECT_EVENTUALLY(ErrorReasonOf(Append({.context = "none"}, NewRows(1, 5)).status()) ==
                    "DRAINING");
  backend_.OpenGate();
  drain.join();
  EXPECT_TRUE(answer.has_come());
  EXPECT_TRUE(answer.Wait().ok());
}

TEST_F(EngineEncodeAnewTest, AShutdownEndsIt) {
  Answer<ContextInfo> answer;
  BeginEncoding(&answer);
  backend_.OpenGate();
  engine_.reset();
  const auto info = answer.Wait();
  EXPECT_TRUE(info.ok() || absl::IsUnavailable(info.status())) << info.status();
}

}  // namespace
}  // namespace chorale::testing
