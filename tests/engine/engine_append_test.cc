// Rows that are appended to contexts.
#include <memory>
#include <string>
#include <vector>

#include "base/error_details.h"
#include "engine/backend/flop_model.h"
#include "engine/data/append_rows.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/context_store.h"
#include "gmock/gmock.h"
#include "tests/engine/appended_rows.h"
#include "tests/engine/engine_fixture.h"
#include "tests/support/temp_folder.h"

namespace chorale::testing {
namespace {

using ::testing::HasSubstr;

class EngineAppendTest : public AppendFixture {
 protected:
  EngineAppendTest() { options_.max_appended_share = 1000; }  // nothing is encoded anew
};

TEST_F(EngineAppendTest, TheNextCallSeesTheRowsAndOnlyTheyAreEncoded) {
  StartEngine();
  EXPECT_TRUE(engine_->appends());
  Register("c");
  MakeResident("c");
  const ContextRecord before = Record("c");
  clock_.Skip(absl::Seconds(1));
  const AppendOutcome outcome = MustAppend("c", 3, 5);
  EXPECT_EQ(outcome.rows, 3);
  EXPECT_FALSE(outcome.already_appended);
  EXPECT_FALSE(outcome.estimate.has_value());
  const ContextRecord& record = outcome.context.record;
  EXPECT_EQ(record.rows, 13);
  EXPECT_EQ(record.appended_rows, 3);
  EXPECT_NE(record.digest, before.digest);
  EXPECT_NE(EtagOf(record), EtagOf(before));
  EXPECT_EQ(record.created, before.created);
  EXPECT_EQ(outcome.context.resident_bytes, 13 * 64);
  EXPECT_EQ(EtagOf(Record("c")), EtagOf(record));
  EXPECT_EQ(Answering("c"), record.digest);
  EXPECT_EQ(backend_.encoded_rows, 10 + 3);
  EXPECT_EQ(metrics_.encoded_rows, 10 + 3);
  EXPECT_EQ(metrics_.appended_rows, 3);
  EXPECT_EQ(metrics_.appends, 1);

  Dataset expected = Joined(MakeDataset(10), MakeDataset(3, 5));
  expected.append_starts = {10};
  EXPECT_EQ(record.digest, ContentDigest(EncodeDataset(expected)));
  MustAppend("c", 1, 6);
  expected = Joined(expected, MakeDataset(1, 6));
  expected.append_starts = {10, 13};
  EXPECT_EQ(Answering("c"), ContentDigest(EncodeDataset(expected)));
  EXPECT_EQ(Record("c").appended_rows, 4);
  EXPECT_EQ(backend_.encoded_rows, 10 + 3 + 1);
}

TEST_F(EngineAppendTest, TheRowsAreEncodedWithoutACall) {
  StartEngine();
  Register("c");
  MakeResident("c");
  MustAppend("c", 3, 5);
  EXPECT_EVENTUALLY(StateOf("c") == ContextState::kResident);
  EXPECT_EQ(backend_.encoded_rows, 13);
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 13 * 64);
}

TEST_F(EngineAppendTest, AContextThatIsNotResidentIsEncodedByItsNextCall) {
  StartEngine();
  Register("c");
  MustAppend("c", 3, 5);
  const AppendOutcome second = MustAppend("c", 2, 6);
  EXPECT_EQ(Answering("c"), second.context.record.digest);
  ASSERT_EQ(backend_.all_encodings().size(), 1u);
  const FakeEncoding encoding = backend_.all_encodings().front();
  EXPECT_EQ(encoding.append_starts, (std::vector<int64_t>{10, 13}));
  EXPECT_EQ(encoding.prefix_rows, 0);
}

// As if the server were restarted.
TEST_F(EngineAppendTest, AnEvictedContextIsEncodedFromTheStore) {
  backend_options_.context_pool_bytes = 20 * 64;
  StartEngine();
  for (const char* name : {"c", "d"}) Register(name);
  MakeResident("c");
  const AppendOutcome outcome = MustAppend("c", 3, 5);
  EXPECT_EVENTUALLY(StateOf("c") == ContextState::kResident);
  MakeResident("d");
  EXPECT_EQ(StateOf("c"), ContextState::kNotResident);
  EXPECT_EQ(Answering("c"), outcome.context.record.digest);
  const FakeEncoding encoding = backend_.all_encodings().back();
  EXPECT_EQ(encoding.append_starts, std::vector<int64_t>{10});
  EXPECT_EQ(encoding.prefix_rows, 0);
}

TEST_F(EngineAppendTest, RunningCallsFinishOnTheRowsThatTheyBeganWith) {
  StartEngine();
  Register("c");
  const std::string old = Record("c").digest;
  for (const bool resident : {false, true}) {
    backend_.CloseGate();
    auto before = std::make_shared<SampleRecorder>();
    engine_->Sample(call_, SampleOf("c", 1, 4), before);
    if (resident) {
      EXPECT_EVENTUALLY(engine_->Stats().running > 0);
    } else {
      EXPECT_EVENTUALLY(engine_->Stats().contexts.encoding > 0);
    }
    const std::string began_with = Record("c").digest;
    const AppendOutcome outcome = MustAppend("c", 2, 5);
    auto after = std::make_shared<SampleRecorder>();
    engine_->Sample(call_, SampleOf("c", 1, 4), after);
    backend_.OpenGate();
    ASSERT_TRUE(before->Wait().ok());
    EXPECT_EQ(before->summary().source.context_digest, began_with);
    ASSERT_TRUE(after->Wait().ok());
    EXPECT_EQ(after->summary().source.context_digest, outcome.context.record.digest);
  }
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 14 * 64);
}

TEST_F(EngineAppendTest, AnEtagGuardsTheAppend) {
  StartEngine();
  Register("c");
  const std::string etag = EtagOf(Record("c"));
  for (const bool validate_only : {true, false}) {
    const auto refused =
        Append({.context = "c", .etag = "other", .validate_only = validate_only}, NewRows(1, 5));
    EXPECT_EQ(ErrorReasonOf(refused.status()), "ETAG_MISMATCH");
  }
  EXPECT_TRUE(Append({.context = "c", .etag = etag}, NewRows(1, 5)).ok());
  EXPECT_EQ(ErrorReasonOf(Append({.context = "c", .etag = etag}, NewRows(1, 5)).status()),
            "ETAG_MISMATCH");
}

TEST_F(EngineAppendTest, AValidationStoresNothing) {
  backend_options_.encode_pool_bytes = 1 << 20;
  backend_options_.encode_bytes_per_row = 100;
  StartEngine();
  Register("c");
  const std::string etag = EtagOf(Record("c"));
  const AppendRequest request{.context = "c", .validate_only = true};
  const auto unmeasured = Append(request, NewRows(3, 5));
  ASSERT_TRUE(unmeasured.ok()) << unmeasured.status();
  EXPECT_EQ(unmeasured->rows, 3);
  EXPECT_EQ(unmeasured->context.record.rows, 13);
  EXPECT_EQ(unmeasured->estimate->device_bytes, 13 * (64 + 100));
  EXPECT_EQ(unmeasured->estimate->duration, std::nullopt) << "nothing was encoded yet";
  backend_.step_time = absl::Milliseconds(10);
  MakeResident("c");
  const auto measured = Append(request, NewRows(3, 5));
  const auto whole = engine_->Register(
      kTenant, {.context = "d", .model = "", .validate_only = true}, MakeDataset(13), StoreQuota());
  ASSERT_TRUE(measured->estimate->duration.has_value());
  const ModelConfig& config = model_.config;
  EXPECT_NEAR(absl::FDivDuration(*measured->estimate->duration, *whole->estimate->duration),
              EncodeFlops(config, {.rows = 13}, {10}, 10) / EncodeFlops(config, {.rows = 13}), 1e-6)
      << "of the new rows";
  EXPECT_EQ(EtagOf(Record("c")), etag);
  EXPECT_EQ(metrics_.appends, 0);
}

TEST_F(EngineAppendTest, DetailsAndTimesStay) {
  StartEngine();
  RegisterRequest request{.context = "c", .model = ""};
  request.description = "described";
  request.labels = {{"team", "a"}};
  request.ttl = absl::Hours(1);
  ASSERT_TRUE(engine_->Register(kTenant, request, MakeDataset(10), StoreQuota()).ok());
  MakeResident("c");
  const ContextRecord before = Record("c");
  clock_.Skip(absl::Seconds(1));
  const ContextRecord after = MustAppend("c", 3, 5).context.record;
  EXPECT_TRUE(after.details == before.details);
  EXPECT_EQ(after.created, before.created);
  EXPECT_EQ(after.last_used, before.last_used);
  EXPECT_GT(after.updated, before.updated);
}

TEST_F(EngineAppendTest, WarningsAreAboutTheAppendedRows) {
  model_.config.normalize_x = Normalization::kZScore;
  StartEngine();
  Register("c", 200);
  Table rows = NewRows(3, 5);
  rows.columns[0].numbers[1] = 1e9;
  const auto outcome = Append({.context = "c"}, rows);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  int64_t outside = 0;
  for (const ColumnNote& note : outcome->notes) outside += note.outside_bulk;
  EXPECT_EQ(outside, 1);
  EXPECT_EQ(outcome->context.record.columns[0].outside_bulk, Record("c").columns[0].outside_bulk);
  EXPECT_EQ(Record("c").columns[0].outside_bulk, 1);
}

TEST_F(EngineAppendTest, WrongTargetsAreClippedAndCounted) {
  model_.config.normalize_y = Normalization::kZScore;
  StartEngine();
  Register("c", 200);
  ASSERT_EQ(Record("c").clipped_targets, 0);
  Table rows = NewRows(3, 5);
  rows.columns.back().numbers[1] = 1e9;
  for (const int64_t appends : {1, 2}) {
    const auto outcome = Append({.context = "c"}, rows);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    ASSERT_FALSE(outcome->notes.empty());
    EXPECT_EQ(outcome->notes.back().column, "y");
    EXPECT_EQ(outcome->notes.back().clipped_targets, 1) << "of this append";
    EXPECT_EQ(outcome->context.record.clipped_targets, appends);
    EXPECT_EQ(Record("c").clipped_targets, appends);
  }
}

TEST_F(EngineAppendTest, BadRowsAreNamed) {
  options_.limits.max_context_rows = 12;
  StartEngine();
  Register("c");
  const auto field = [&](const Table& rows) {
    return ErrorField(Append({.context = "c"}, rows).status());
  };
  EXPECT_EQ(field(NewRows(3, 5)), "rows") << "too many";
  Table missing = NewRows(1, 5);
  missing.columns.erase(missing.columns.begin());
  EXPECT_THAT(field(missing), HasSubstr("rows"));
  Table without_target = NewRows(1, 5);
  without_target.columns.pop_back();
  EXPECT_EQ(field(without_target), "rows.columns");
  Table nan = NewRows(2, 5);
  nan.columns.back().numbers[1] = std::nan("");
  EXPECT_THAT(field(nan), HasSubstr("rows.columns[\"y\"]"));
  EXPECT_THAT(field(NewRows(0, 5)), HasSubstr("rows"));
  const auto dropped = Append({.context = "c", .drop_missing_targets = true}, nan);
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_EQ(dropped->rows, 1);
  EXPECT_EQ(Record("c").rows, 11);
}

TEST_F(EngineAppendTest, TheContentMustFitIntoThePool) {
  backend_options_.context_pool_bytes = 12 * 64;
  StartEngine();
  Register("c");
  MakeResident("c");
  const auto refused = Append({.context = "c"}, NewRows(3, 5));
  EXPECT_EQ(ErrorField(refused.status()), "rows");
  const AppendOutcome outcome = MustAppend("c", 2, 5);
  EXPECT_EQ(Answering("c"), outcome.context.record.digest);
  EXPECT_EQ(backend_.all_encodings().back().prefix_rows, 0) << "the pool has no room for both";
}

TEST_F(EngineAppendTest, TheContextMustExist) {
  StartEngine();
  EXPECT_EQ(Append({.context = "none"}, NewRows(1, 5)).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(EngineAppendTest, ABackendMayNotSupportAppends) {
  backend_options_.appends = false;
  StartEngine();
  Register("c");
  EXPECT_FALSE(engine_->appends());
  const auto refused = Append({.context = "c"}, NewRows(1, 5));
  EXPECT_EQ(ErrorReasonOf(refused.status()), "APPEND_UNSUPPORTED");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
}

// As after a move of the store to another device.
TEST_F(EngineAppendTest, AppendedRowsOfAnotherDevice) {
  const TempFolder folder;
  const auto start = [&](bool appends) {
    engine_.reset();
    backend_options_.appends = appends;
    engine_ = Engine::Create(options_, NewFakeBackend(backend_options_, &backend_),
                             OpenSqliteContextStore(folder.path()).value(), {model_}, &metrics_)
                  .value();
  };
  start(true);
  Register("c");
  MustAppend("c", 3, 5);
  start(false);
  EXPECT_EQ(engine_->GetContext(kTenant, "c")->resident_bytes, 0);
  EXPECT_EQ(engine_->ListContexts(kTenant, {10}, "")->contexts.size(), 1u);
  Answer<PredictResult> refused;
  engine_->Predict(call_, PredictOf("c", 2), refused.callback());
  EXPECT_EQ(ErrorReasonOf(refused.Wait().status()), "APPEND_UNSUPPORTED");
  EXPECT_EQ(ErrorField(refused.Wait().status()), "context");
  PredictRequest local = PredictOf("c", 2);
  local.local_rows = 5;
  Answer<PredictResult> served;
  engine_->Predict(call_, local, served.callback());
  EXPECT_TRUE(served.Wait().ok());
  Answer<ContextInfo> warm;
  engine_->Warm(call_, {.context = "c"}, warm.callback());
  EXPECT_EQ(ErrorReasonOf(warm.Wait().status()), "APPEND_UNSUPPORTED");
  Answer<ContextInfo> anew;
  engine_->Warm(call_, {.context = "c", .encode_anew = true}, anew.callback());
  ASSERT_TRUE(anew.Wait().ok()) << anew.Wait().status();
  EXPECT_EQ(Answering("c"), Record("c").digest);
  engine_.reset();
}

TEST_F(EngineAppendTest, TheModelMustBeServed) {
  StartEngine();
  Model other = model_;
  other.name = "other";
  ASSERT_TRUE(engine_->AddModel(other).ok());
  ASSERT_TRUE(engine_->Register(kTenant, "c", "other", MakeDataset(10)).ok());
  MakeResident("c");
  ASSERT_TRUE(engine_->RemoveModel("other").ok());
  EXPECT_EQ(ErrorReasonOf(Append({.context = "c"}, NewRows(1, 5)).status()), "MODEL_NOT_SERVED");
  ASSERT_TRUE(engine_->AddModel(other).ok());
  const AppendOutcome outcome = MustAppend("c", 1, 5);
  EXPECT_EQ(Answering("c"), outcome.context.record.digest);
  EXPECT_EQ(backend_.all_encodings().back().prefix_rows, 0) << "the model may be another";
}

TEST_F(EngineAppendTest, APinnedContextStaysPinned) {
  backend_options_.context_pool_bytes = 26 * 64;
  StartEngine();
  for (const char* name : {"c", "d", "e"}) Register(name);
  Answer<ContextInfo> pinned;
  engine_->Warm(call_, {.context = "c", .residency = Residency::kPinned}, pinned.callback());
  ASSERT_TRUE(pinned.Wait().ok());
  MustAppend("c", 3, 5);
  EXPECT_EVENTUALLY(engine_->Stats().contexts.pinned_bytes == 13 * 64 &&
                    StateOf("c") == ContextState::kResident);
  for (const char* name : {"d", "e", "d"}) MakeResident(name);
  EXPECT_EQ(StateOf("c"), ContextState::kResident) << "it was evicted";
  EXPECT_EQ(Record("c").appended_rows, 3);
}

TEST_F(EngineAppendTest, AnAppendThatFailsMayHaveBeenStored) {
  StartEngine();
  Register("c");
  MakeResident("c");
  store_.fail_after_put = true;
  EXPECT_EQ(Append({.context = "c"}, NewRows(3, 5)).status().code(), absl::StatusCode::kInternal);
  store_.fail_after_put = false;
  EXPECT_EQ(Answering("c"), Record("c").digest);
  EXPECT_EQ(Record("c").rows, 13);
}

TEST_F(EngineAppendTest, NothingIsAppendedWhileTheEngineDrains) {
  StartEngine();
  Register("c");
  engine_->Drain(clock_.Now());
  EXPECT_EQ(ErrorReasonOf(Append({.context = "c"}, NewRows(1, 5)).status()), "DRAINING");
}

TEST_F(EngineAppendTest, AnExpiredContextIsDeletedWithItsAppendedRows) {
  StartEngine();
  RegisterRequest request{.context = "c", .model = "", .ttl = absl::Minutes(10)};
  ASSERT_TRUE(engine_->Register(kTenant, request, MakeDataset(10), StoreQuota()).ok());
  MakeResident("c");
  MustAppend("c", 3, 5);
  EXPECT_TRUE(
      SkipUntil(absl::Seconds(30), [&] { return !engine_->GetContext(kTenant, "c").ok(); }));
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 0);
  EXPECT_EQ(Append({.context = "c"}, NewRows(1, 5)).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace chorale::testing
