// Options of registrations.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "base/error_details.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

class EngineRegistrationTest : public EngineFixture {};

TEST_F(EngineRegistrationTest, AValidationReturnsTheContextAndStoresNothing) {
  backend_options_.encode_pool_bytes = 1 << 20;
  backend_options_.encode_bytes_per_row = 100;
  StartEngine();
  const auto validate = [&](const std::string& name, const Dataset& dataset) {
    return engine_->Register(kTenant, {.context = name, .model = "", .validate_only = true},
                             dataset, StoreQuota());
  };
  const auto validated = validate("c", MakeDataset(10));
  ASSERT_TRUE(validated.ok()) << validated.status();
  EXPECT_EQ(validated->outcome, PutOutcome::kCreated);
  ASSERT_TRUE(validated->estimate.has_value());
  EXPECT_EQ(validated->estimate->device_bytes, 640 + 1000);
  EXPECT_EQ(validated->estimate->duration, std::nullopt) << "nothing was encoded yet";
  EXPECT_TRUE(engine_->ListContexts(kTenant, {10}, "")->contexts.empty());

  const auto registered = engine_->Register(kTenant, "c", "", MakeDataset(10));
  ASSERT_TRUE(registered.ok());
  EXPECT_EQ(registered->outcome, PutOutcome::kCreated);
  EXPECT_FALSE(registered->estimate.has_value());
  EXPECT_EQ(registered->context.record.digest, validated->context.record.digest);
  EXPECT_EQ(registered->context.record.dataset_bytes, validated->context.record.dataset_bytes);
  EXPECT_EQ(registered->context.resident_bytes, validated->context.resident_bytes);

  backend_.clock = &clock_;
  backend_.step_time = absl::Milliseconds(10);
  MakeResident("c");
  const auto again = validate("c", MakeDataset(10));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->outcome, PutOutcome::kUnchanged);
  ASSERT_TRUE(again->estimate->duration.has_value());
  EXPECT_GT(*again->estimate->duration, absl::ZeroDuration());
  EXPECT_EQ(validate("c", MakeDataset(10, 5)).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ErrorField(validate("No!", MakeDataset(10)).status()), "context_id");
}

TEST_F(EngineRegistrationTest, DetailsThatAreSetReplaceTheEarlierOnes) {
  StartEngine();
  const auto registered = [&](RegisterRequest request) {
    request.context = "c";
    const auto outcome = engine_->Register(kTenant, request, MakeDataset(10), StoreQuota());
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome->context.record;
  };
  RegisterRequest request;
  request.description = "first";
  request.labels = {{"team", "a"}};
  const ContextRecord first = registered(request);
  EXPECT_EQ(first.details.description, "first");
  EXPECT_EQ(first.details.labels, request.labels);
  EXPECT_EQ(first.details.expires, absl::InfiniteFuture());
  EXPECT_EQ(first.updated, first.created);
  MakeResident("c");

  EXPECT_EQ(EtagOf(registered({})), EtagOf(first)) << "nothing is set";
  clock_.Skip(absl::Seconds(1));
  RegisterRequest labels;
  labels.labels = {{"team", "b"}, {"year", "2026"}};
  labels.ttl = absl::Hours(2);
  const ContextRecord second = registered(labels);
  EXPECT_EQ(second.digest, first.digest);
  EXPECT_EQ(second.details.description, "first");
  EXPECT_EQ(second.details.labels, labels.labels);
  EXPECT_GT(second.details.expires, clock_.TimeOfDay() + absl::Hours(1));
  EXPECT_LE(second.details.expires, clock_.TimeOfDay() + absl::Hours(2));
  EXPECT_EQ(second.created, first.created);
  EXPECT_NE(EtagOf(second), EtagOf(first));
  EXPECT_TRUE(engine_->GetContext(kTenant, "c")->record.details == second.details);
  EXPECT_EQ(StateOf("c"), ContextState::kResident) << "the content is the same";
  Answer<ContextInfo> warm;
  engine_->Warm(call_, {.context = "c"}, warm.callback());
  EXPECT_TRUE(warm.Wait()->record.details == second.details);

  RegisterRequest past;
  past.context = "c";
  past.expires = clock_.TimeOfDay();
  EXPECT_EQ(ErrorField(engine_->Register(kTenant, past, MakeDataset(10), StoreQuota()).status()),
            "spec.expire_time");
}

TEST_F(EngineRegistrationTest, ExpiredContextsAreDeletedOnceNoCallUsesThem) {
  StartEngine();
  for (const char* name : {"idle", "used", "kept"}) {
    RegisterRequest request{.context = name, .model = ""};
    if (std::string(name) != "kept") request.ttl = absl::Minutes(10);
    ASSERT_TRUE(engine_->Register(kTenant, request, MakeDataset(10), StoreQuota()).ok());
  }
  Answer<PredictResult> predicted;  // ends its use of the context once
  engine_->Predict(call_, PredictOf("used", 300), predicted.callback());
  EXPECT_TRUE(predicted.Wait().ok());
  backend_.CloseGate();
  auto recorder = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("used", 1, 1), recorder);
  EXPECT_EVENTUALLY(engine_->Stats().running > 0);
  const auto exists = [&](const char* name) { return engine_->GetContext(kTenant, name).ok(); };
  EXPECT_TRUE(SkipUntil(absl::Seconds(30), [&] { return !exists("idle"); }));
  EXPECT_TRUE(exists("used"));
  EXPECT_TRUE(exists("kept"));
  backend_.OpenGate();
  EXPECT_TRUE(recorder->Wait().ok());
  EXPECT_TRUE(SkipUntil(absl::Seconds(30), [&] { return !exists("used"); }));
  EXPECT_TRUE(exists("kept"));
}

TEST_F(EngineRegistrationTest, AReplacedContextServesTheCallsThatUseIt) {
  StartEngine();
  Register("c");
  backend_.CloseGate();
  auto before = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 1, 1), before);
  EXPECT_EVENTUALLY(engine_->Stats().contexts.encoding > 0);
  const std::string old = engine_->GetContext(kTenant, "c")->record.digest;
  const RegisterRequest replace{.context = "c", .model = "", .replace = true};
  const auto replaced = engine_->Register(kTenant, replace, MakeDataset(10, 5), StoreQuota());
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_EQ(replaced->outcome, PutOutcome::kReplaced);
  EXPECT_NE(replaced->context.record.digest, old);
  backend_.OpenGate();
  ASSERT_TRUE(before->Wait().ok());
  EXPECT_EQ(before->summary().source.context_digest, old);
  auto after = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 1, 1), after);
  ASSERT_TRUE(after->Wait().ok());
  EXPECT_EQ(after->summary().source.context_digest, replaced->context.record.digest);
}

TEST_F(EngineRegistrationTest, NoCallFailsWhileAContextIsReplaced) {
  backend_options_.context_pool_bytes = 640;  // of one context: the others wait
  StartEngine();
  for (const char* name : {"c", "d"}) Register(name);
  std::atomic<bool> stop{false};
  std::thread replacer([&] {
    for (uint64_t seed = 2; !stop; ++seed) {
      const RegisterRequest replace{.context = "c", .model = "", .replace = true};
      const auto outcome = engine_->Register(kTenant, replace, MakeDataset(10, seed), StoreQuota());
      EXPECT_TRUE(outcome.ok()) << outcome.status();
    }
  });
  for (int i = 0; i < 200; ++i) {
    std::vector<std::shared_ptr<SampleRecorder>> recorders;
    for (const char* name : {"c", "d", "c"}) {
      recorders.push_back(std::make_shared<SampleRecorder>());
      engine_->Sample(call_, SampleOf(name, 1, 1), recorders.back());
    }
    for (const auto& recorder : recorders) {
      const absl::Status status = recorder->Wait();
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  stop = true;
  replacer.join();
}

TEST_F(EngineRegistrationTest, APinnedContextStaysPinnedWhenItIsReplaced) {
  backend_options_.context_pool_bytes = 1280;  // of two contexts
  StartEngine();
  for (const char* name : {"c", "d", "e"}) Register(name);
  Answer<ContextInfo> pinned;
  engine_->Warm(call_, {.context = "c", .residency = Residency::kPinned}, pinned.callback());
  ASSERT_TRUE(pinned.Wait().ok());
  const RegisterRequest replace{.context = "c", .model = "", .replace = true};
  ASSERT_TRUE(engine_->Register(kTenant, replace, MakeDataset(10, 5), StoreQuota()).ok());
  EXPECT_EVENTUALLY(StateOf("c") == ContextState::kResident);
  for (const char* name : {"d", "e", "d"}) MakeResident(name);
  EXPECT_EQ(StateOf("c"), ContextState::kResident) << "it was evicted";
  EXPECT_TRUE(engine_->DeleteContext(kTenant, "c").ok());
}

TEST_F(EngineRegistrationTest, EtagsGuardReplacementsAndDeletions) {
  StartEngine();
  Register("c");
  const std::string etag = EtagOf(engine_->GetContext(kTenant, "c")->record);
  const RegisterRequest wrong{.context = "c", .model = "", .replace = true, .etag = "other"};
  const auto refused = engine_->Register(kTenant, wrong, MakeDataset(10, 5), StoreQuota());
  EXPECT_EQ(ErrorReasonOf(refused.status()), "ETAG_MISMATCH");
  EXPECT_EQ(ErrorReasonOf(engine_->DeleteContext(kTenant, "c", {.etag = "other"})),
            "ETAG_MISMATCH");
  EXPECT_TRUE(engine_->GetContext(kTenant, "c").ok());
  const RegisterRequest right{.context = "c", .model = "", .replace = true, .etag = etag};
  ASSERT_TRUE(engine_->Register(kTenant, right, MakeDataset(10, 5), StoreQuota()).ok());
  EXPECT_EQ(ErrorReasonOf(engine_->DeleteContext(kTenant, "c", {.etag = etag})), "ETAG_MISMATCH");
  const std::string now = EtagOf(engine_->GetContext(kTenant, "c")->record);
  EXPECT_TRUE(engine_->DeleteContext(kTenant, "c", {.etag = now}).ok());
  EXPECT_EQ(engine_->DeleteContext(kTenant, "c", {.etag = now}).code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(engine_->DeleteContext(kTenant, "c", {.etag = now, .allow_missing = true}).ok());
}

TEST_F(EngineRegistrationTest, TheLastUseIsKnown) {
  StartEngine();
  Register("c");
  EXPECT_EQ(engine_->GetContext(kTenant, "c")->record.last_used, absl::InfinitePast());
  const absl::Time before = clock_.TimeOfDay();
  MakeResident("c");
  const absl::Time used = engine_->GetContext(kTenant, "c")->record.last_used;
  EXPECT_GE(used, before);
  EXPECT_LE(used, clock_.TimeOfDay());
  // The store has it after a while.
  clock_.Skip(absl::Minutes(6));
  EXPECT_EVENTUALLY(engine_->GetContext(kTenant, "c")->record.last_used == used);
}

// A retry after a lost response has the etag of before the replacement, and moves the expiry.
TEST_F(EngineRegistrationTest, AReplacementWithAnEtagAndATtlCanBeRetried) {
  StartEngine();
  Register("c");
  RegisterRequest request{.context = "c",
                          .model = "",
                          .ttl = absl::Minutes(10),
                          .replace = true,
                          .etag = EtagOf(engine_->GetContext(kTenant, "c")->record)};
  const auto put = [&] {
    return engine_->Register(kTenant, request, MakeDataset(10, 5), StoreQuota());
  };
  ASSERT_EQ(put()->outcome, PutOutcome::kReplaced);
  clock_.Skip(absl::Seconds(1));
  const auto retried = put();
  ASSERT_TRUE(retried.ok()) << retried.status();
  EXPECT_EQ(retried->outcome, PutOutcome::kUnchanged);
  request.description = "changed";
  for (const bool validate_only : {true, false}) {
    request.validate_only = validate_only;
    EXPECT_EQ(ErrorReasonOf(put().status()), "ETAG_MISMATCH");
  }
}

}  // namespace
}  // namespace chorale::testing
