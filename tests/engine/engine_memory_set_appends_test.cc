// Rows that are appended to contexts with memory sets.
#include <memory>
#include <string>
#include <vector>

#include "base/error_details.h"
#include "engine/backend/flop_model.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/context_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/appended_rows.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr MemorySet kSet = {.rows = 64};
constexpr int64_t kSetBytes = 64 * (64 + 8);  // on the fake backend

class EngineMemorySetAppendsTest : public AppendFixture {
 protected:
  EngineMemorySetAppendsTest() { options_.max_appended_share = 1000; }

  static Dataset WithSet(int64_t rows, const MemorySet& memory = kSet, uint64_t seed = 1) {
    Dataset dataset = MakeDataset(rows, seed);
    dataset.memory = memory;
    return dataset;
  }
  // Returns the seed of the encoding.
  uint64_t Register(const std::string& name, const Dataset& dataset) {
    const auto outcome = engine_->Register(kTenant, name, "", dataset);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return SeedOf(dataset);
  }
  static uint64_t SeedOf(const Dataset& dataset) {
    return ContentSeed("memory set", ContentDigest(EncodeDataset(dataset)));
  }
  static FakeEncoding Encoding(int64_t rows, uint64_t seed, const std::vector<int64_t>& starts,
                               int64_t prefix_rows) {
    return {{.rows = rows, .memory = kSet}, seed, starts, prefix_rows};
  }
  FakeEncoding LastEncoding() { return backend_.all_encodings().back(); }
};

TEST_F(EngineMemorySetAppendsTest, OnlyTheNewRowsAreEncodedWithTheSeedOfTheFirst) {
  StartEngine();
  const uint64_t seed = Register("c", WithSet(100));
  MakeResident("c");
  EXPECT_EQ(LastEncoding(), Encoding(100, seed, {}, 0));
  AppendOutcome outcome = MustAppend("c", 3, 5);
  EXPECT_EQ(outcome.context.resident_bytes, kSetBytes);
  EXPECT_EQ(outcome.context.record.memory, kSet);
  EXPECT_EQ(outcome.context.record.appended_rows, 3);
  EXPECT_EQ(Answering("c"), outcome.context.record.digest);
  EXPECT_EQ(LastEncoding(), Encoding(103, seed, {100}, 100));
  outcome = MustAppend("c", 1, 6);
  EXPECT_EQ(Answering("c"), outcome.context.record.digest);
  EXPECT_EQ(LastEncoding(), Encoding(104, seed, {100, 103}, 103));
  EXPECT_EQ(metrics_.encoded_rows, 104);
  EXPECT_EQ(metrics_.appended_rows, 4);
  EXPECT_EQ(metrics_.memory_set_keys[static_cast<size_t>(MemoryPolicy::kMerge)], 3 * 64);
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == kSetBytes);
}

TEST_F(EngineMemorySetAppendsTest, AnEvictedContextIsEncodedFromTheStore) {
  backend_options_.context_pool_bytes = 2 * kSetBytes;
  StartEngine();
  const uint64_t seed = Register("c", WithSet(100));
  for (const char* name : {"d", "e"}) Register(name, WithSet(100, kSet, name[0]));
  MakeResident("c");
  const AppendOutcome outcome = MustAppend("c", 3, 5);
  EXPECT_EVENTUALLY(StateOf("c") == ContextState::kResident);
  EXPECT_EQ(LastEncoding(), Encoding(103, seed, {100}, 100));
  for (const char* name : {"d", "e"}) MakeResident(name);
  EXPECT_EQ(StateOf("c"), ContextState::kNotResident);
  EXPECT_EQ(Answering("c"), outcome.context.record.digest);
  EXPECT_EQ(LastEncoding(), Encoding(103, seed, {100}, 0));
}

// The keys of rows that are not reduced are not those of the first segments of a set.
TEST_F(EngineMemorySetAppendsTest, AnAppendMayMakeTheContextReduced) {
  StartEngine();
  const uint64_t seed = Register("c", WithSet(60));
  MakeResident("c");
  AppendOutcome outcome = MustAppend("c", 3, 5);
  EXPECT_EQ(Answering("c"), outcome.context.record.digest);
  EXPECT_EQ(LastEncoding().prefix_rows, 60);
  outcome = MustAppend("c", 5, 6);
  EXPECT_EQ(outcome.context.resident_bytes, kSetBytes);
  EXPECT_EQ(Answering("c"), outcome.context.record.digest);
  EXPECT_EQ(LastEncoding(), Encoding(68, seed, {60, 63}, 0));
  outcome = MustAppend("c", 2, 7);
  EXPECT_EQ(Answering("c"), outcome.context.record.digest);
  EXPECT_EQ(LastEncoding(), Encoding(70, seed, {60, 63, 68}, 68));
}

TEST_F(EngineMemorySetAppendsTest, OtherPoliciesRefuseAppends) {
  StartEngine();
  for (const MemoryPolicy policy : {MemoryPolicy::kHeavy, MemoryPolicy::kSample}) {
    const std::string name = MemoryPolicyName(policy);
    for (const int64_t rows : {63, 100}) {
      const std::string context = name + (rows == 63 ? "-whole" : "-reduced");
      Register(context, WithSet(rows, {64, policy}));
      if (rows == 63) MustAppend(context, 1, 5);
      const absl::Status refused = Append({.context = context}, NewRows(2, 6)).status();
      EXPECT_EQ(ErrorReasonOf(refused), "APPEND_UNSUPPORTED") << refused;
      EXPECT_THAT(std::string(refused.message()),
                  AllOf(HasSubstr(context), HasSubstr("with the policy " + name),
                        HasSubstr("with replace, or with the policy merge")));
      EXPECT_EQ(Answering(context), Record(context).digest);
    }
  }
}

TEST_F(EngineMemorySetAppendsTest, AnEstimateIsThatOfTheNewSegments) {
  backend_options_.encode_pool_bytes = 1 << 20;
  backend_options_.encode_bytes_per_row = 100;
  backend_.step_time = absl::Milliseconds(10);
  StartEngine();
  Register("c", WithSet(100));
  Register("small", WithSet(64));
  MakeResident("c");
  const auto estimate = [&](const std::string& name) {
    const auto outcome = Append({.context = name, .validate_only = true}, NewRows(3, 5));
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->estimate->device_bytes, kSetBytes + 64 * 100);
    return *outcome->estimate->duration;
  };
  const ModelConfig& config = model_.config;
  const ContextShape shape = {.rows = 103, .memory = kSet};
  const ContextShape small = {.rows = 67, .memory = kSet};
  EXPECT_NEAR(absl::FDivDuration(estimate("small"), estimate("c")),
              EncodeFlops(config, small, {64}) / EncodeFlops(config, shape, {100}, 100), 1e-6);
}

TEST_F(EngineMemorySetAppendsTest, EncodedAnewItIsARegistrationOfAllRows) {
  StartEngine();
  Register("c", WithSet(100));
  MustAppend("c", 3, 5);
  Answer<ContextInfo> answer;
  engine_->Warm(call_, {.context = "c", .encode_anew = true}, answer.callback());
  ASSERT_TRUE(answer.Wait().ok()) << answer.Wait().status();
  const Dataset all = Joined(WithSet(100), MakeDataset(3, 5));
  EXPECT_EQ(Record("c").digest, ContentDigest(EncodeDataset(all)));
  EXPECT_EQ(LastEncoding(), Encoding(103, SeedOf(all), {}, 0));
}

TEST_F(EngineMemorySetAppendsTest, RowsAppendedWhileItIsEncodedAnewHaveTheNewSeed) {
  backend_options_.encode_steps = 200;
  StartEngine();
  Register("c", WithSet(100));
  MustAppend("c", 3, 5);
  MakeResident("c");
  backend_.CloseGate();
  Answer<ContextInfo> answer;
  engine_->Warm(call_, {.context = "c", .encode_anew = true}, answer.callback());
  EXPECT_EVENTUALLY(backend_.encodings == 2);
  MustAppend("c", 2, 6);
  backend_.OpenGate();
  ASSERT_TRUE(answer.Wait().ok()) << answer.Wait().status();
  EXPECT_EQ(Answering("c"), Record("c").digest);
  const uint64_t seed = SeedOf(Joined(WithSet(100), MakeDataset(3, 5)));
  EXPECT_EQ(LastEncoding(), Encoding(105, seed, {103}, 103));
}

}  // namespace
}  // namespace chorale::testing
