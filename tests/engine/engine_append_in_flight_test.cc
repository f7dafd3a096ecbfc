// Rows that are appended while their context is being encoded.
#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "tests/engine/appended_rows.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

class EngineAppendInFlightTest : public AppendFixture {
 protected:
  EngineAppendInFlightTest() { options_.max_appended_share = 1000; }  // nothing is encoded anew
};

// Rows are appended while all rows are encoded for a call.
TEST_F(EngineAppendInFlightTest, AnEncodingInFlightIsNotThrownAway) {
  backend_options_.encode_steps = 200;
  for (const bool cancelled : {false, true}) {
    engine_.reset();
    StartEngine();
    Register("c", 1800);
    const int64_t encoded = backend_.encoded_rows;
    const int64_t encodings = backend_.encodings;
    backend_.CloseGate();
    Answer<ContextInfo> warm;
    const auto call = engine_->Warm(call_, {.context = "c"}, warm.callback());
    EXPECT_EVENTUALLY(backend_.encodings > encodings);
    backend_.LetThrough(1);
    if (cancelled) {
      call->Cancel();
      backend_.LetThrough(1);
      EXPECT_EQ(warm.Wait().status().code(), absl::StatusCode::kCancelled);
    }
    MustAppend("c", 5, 5);
    const AppendOutcome outcome = MustAppend("c", 2, 6);
    backend_.OpenGate();
    if (!cancelled) {
      EXPECT_TRUE(warm.Wait().ok());
    }
    EXPECT_EQ(Answering("c"), outcome.context.record.digest);
    EXPECT_EQ(backend_.encoded_rows - encoded, 1800 + 5 + 2) << cancelled;
    EXPECT_EQ(backend_.all_encodings().back().prefix_rows, 1800);
    EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 1807 * 64);
  }
}

TEST_F(EngineAppendInFlightTest, SeveralAppendsMayComeWithinATick) {
  backend_options_.encode_steps = 200;
  StartEngine();
  for (const char* name : {"c", "other"}) Register(name);
  MakeResident("c");
  backend_.CloseGate();
  Answer<ContextInfo> warm;
  engine_->Warm(call_, {.context = "other"}, warm.callback());
  EXPECT_EVENTUALLY(backend_.encodings == 2);
  for (uint64_t i = 0; i < 5; ++i) MustAppend("c", 1, i + 5);
  backend_.OpenGate();
  EXPECT_EQ(Answering("c"), Record("c").digest);
  EXPECT_TRUE(warm.Wait().ok());
  EXPECT_EQ(backend_.encoded_rows, 10 + 10 + 5) << "not all rows again";
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == (15 + 10) * 64);
}

TEST_F(EngineAppendInFlightTest, AContextBecomesResidentWhileRowsAreAppended) {
  backend_options_.encode_steps = 50;
  StartEngine();
  Register("c", 100);
  backend_.CloseGate();
  Answer<ContextInfo> warm;
  engine_->Warm(call_, {.context = "c"}, warm.callback());
  EXPECT_EVENTUALLY(backend_.encodings > 0);
  for (uint64_t i = 0; i < 40; ++i) {
    MustAppend("c", 1, i + 5);
    backend_.LetThrough(1);
  }
  backend_.OpenGate();
  EXPECT_EQ(Answering("c"), Record("c").digest);
  EXPECT_EQ(backend_.encoded_rows, 100 + 40) << "each row once";
}

TEST_F(EngineAppendInFlightTest, AnEncodingInFlightEndsWithItsContext) {
  backend_options_.encode_steps = 200;
  StartEngine();
  Register("c");
  backend_.CloseGate();
  Answer<ContextInfo> warm;
  const auto call = engine_->Warm(call_, {.context = "c"}, warm.callback());
  EXPECT_EVENTUALLY(backend_.encodings > 0);
  call->Cancel();
  MustAppend("c", 2, 5);
  backend_.LetThrough(1);
  EXPECT_GT(engine_->Stats().contexts.encoding, 0) << "for the context with the new rows";
  ASSERT_TRUE(engine_->DeleteContext(kTenant, "c").ok());
  backend_.OpenGate();
  EXPECT_EVENTUALLY(engine_->Stats().resident_bytes == 0);
  EXPECT_EQ(backend_.encodings, 1);
}

}  // namespace
}  // namespace chorale::testing
