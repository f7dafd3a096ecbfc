#include "engine/composition/encodings_anew.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

class EncodingsAnewTest : public ::testing::Test {
 protected:
  void Request(const std::string& name, std::optional<EncodingsAnew::Waiter> waiter = {}) {
    encodings_.Request({"t", name}, {.tenant = "t", .share = {"caller", 4}}, std::move(waiter));
  }
  EncodingsAnew::Waiter Waiter(const std::string& name, std::shared_ptr<CallControl> control =
                                                            std::make_shared<CallControl>()) {
    return {std::move(control), [this, name](const absl::Status& status) {
              told_.push_back(name + StatusName(status));
            }};
  }
  static std::string StatusName(const absl::Status& status) { return status.ok() ? "" : " failed"; }
  static EncodingsAnew::End End(EncodedAnewOutcome outcome) {
    return {outcome == EncodedAnewOutcome::kReplaced ? absl::OkStatus() : absl::AbortedError(""),
            outcome};
  }
  std::vector<std::string> Started() const {
    std::vector<std::string> names;
    for (const EncodingsAnew::Run& run : runs_) names.push_back(run.context.name);
    return names;
  }
  int64_t Outcomes(EncodedAnewOutcome outcome) const {
    return metrics_.encoded_anew[static_cast<size_t>(outcome)];
  }

  using Names = std::vector<std::string>;
  RecordingMetrics metrics_;
  std::vector<EncodingsAnew::Run> runs_;
  Names told_;
  EncodingsAnew encodings_{[this](const EncodingsAnew::Run& run) { runs_.push_back(run); },
                           &metrics_};
};

TEST_F(EncodingsAnewTest, OneContextAtATimeInOrder) {
  for (const char* name : {"a", "b", "a", "c", "b"}) Request(name);
  EXPECT_EQ(Started(), Names{"a"});
  encodings_.OnEnd(End(EncodedAnewOutcome::kFailed));
  EXPECT_EQ(Started(), (Names{"a", "b"})) << "the requests are combined";
  encodings_.OnEnd(End(EncodedAnewOutcome::kFailed));
  EXPECT_EQ(Started(), (Names{"a", "b", "a"})) << "requested while it was encoded";
  encodings_.OnEnd({absl::OkStatus()});
  EXPECT_EQ(Started(), (Names{"a", "b", "a", "c"}));
  encodings_.OnEnd(End(EncodedAnewOutcome::kReplaced));
  EXPECT_EQ(Started().size(), 4u);
  EXPECT_EQ(Outcomes(EncodedAnewOutcome::kFailed), 2);
  EXPECT_EQ(Outcomes(EncodedAnewOutcome::kReplaced), 1);
}

TEST_F(EncodingsAnewTest, WhatWasRequestedInTheBackgroundMeanwhileIsDone) {
  Request("a");
  Request("a");
  Request("b");
  encodings_.OnEnd(End(EncodedAnewOutcome::kReplaced));
  EXPECT_EQ(Started(), (Names{"a", "b"}));
}

TEST_F(EncodingsAnewTest, CallsAreToldOfTheirEncoding) {
  Request("a", Waiter("first"));
  Request("a", Waiter("second"));
  Request("a", Waiter("third"));
  encodings_.OnEnd(End(EncodedAnewOutcome::kReplaced));
  EXPECT_EQ(told_, Names{"first"});
  EXPECT_EQ(Started(), (Names{"a", "a"})) << "the others came later";
  encodings_.OnEnd(End(EncodedAnewOutcome::kFailed));
  EXPECT_EQ(told_, (Names{"first", "second failed", "third failed"}));
}

TEST_F(EncodingsAnewTest, ItBeginsAgainOnlyForACall) {
  Request("a");
  encodings_.OnEnd(End(EncodedAnewOutcome::kChanged));
  EXPECT_EQ(Started(), Names{"a"});
  const auto control = std::make_shared<CallControl>();
  Request("a", Waiter("call", control));
  runs_.back().control->ended = true;
  encodings_.OnEnd(End(EncodedAnewOutcome::kChanged));
  EXPECT_EQ(Started(), (Names{"a", "a", "a"}));
  EXPECT_FALSE(runs_.back().control->ended) << "another run";
  EXPECT_TRUE(told_.empty());
  control->ended = true;
  encodings_.OnEnd(End(EncodedAnewOutcome::kChanged));
  EXPECT_EQ(Started().size(), 3u);
}

TEST_F(EncodingsAnewTest, ACallUsesItsOwnShare) {
  Request("a");
  Request("b", Waiter("call"));
  Request("c");
  Request("c", Waiter("call"));
  for (int i = 0; i < 3; ++i) encodings_.OnEnd({absl::OkStatus()});
  EXPECT_LT(runs_[0].share.weight, 1);
  EXPECT_EQ(runs_[1].share.client, "caller");
  EXPECT_EQ(runs_[2].share.client, "caller");
}

TEST_F(EncodingsAnewTest, ADrainEndsWhatNoCallWaitsFor) {
  Request("a");
  Request("b");
  Request("c", Waiter("call"));
  encodings_.Drain();
  EXPECT_TRUE(runs_[0].control->cancelled);
  encodings_.OnEnd(End(EncodedAnewOutcome::kFailed));
  EXPECT_EQ(Started(), (Names{"a", "c"}));
  Request("d");
  encodings_.Drain();
  EXPECT_FALSE(runs_[1].control->cancelled);
  encodings_.OnEnd(End(EncodedAnewOutcome::kReplaced));
  EXPECT_EQ(Started().size(), 2u);
  EXPECT_EQ(told_, Names{"call"});
}

}  // namespace
}  // namespace chorale::testing
