// What the engine reports of a call at its end.
#include <memory>
#include <optional>
#include <utility>

#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

using Context = CallReport::Context;

class CallReportTest : public EngineFixture {
 protected:
  // The report of a call that has ended: it comes before the caller hears of the end.
  struct Reported {
    std::optional<CallReport> report;
    int times = 0;
  };

  static CallContext ReportTo(const std::shared_ptr<Reported>& reported) {
    return {.tenant = kTenant, .report = [reported](const CallReport& report) {
              reported->report = report;
              ++reported->times;
            }};
  }

  CallReport Draw(const std::string& context) {
    const auto reported = std::make_shared<Reported>();
    auto recorder = std::make_shared<SampleRecorder>();
    engine_->Sample(ReportTo(reported), SampleOf(context, 1, 2), recorder);
    recorder->Wait().IgnoreError();
    EXPECT_EQ(reported->times, 1);
    return reported->report.value_or(CallReport());
  }
};

TEST_F(CallReportTest, ACallThatWaitsForItsContextTellsEveryStage) {
  backend_.microseconds_per_step = 1000;
  StartEngine();
  Register("c", 12);
  const CallReport report = Draw("c");
  EXPECT_EQ(report.model, model_.name);
  EXPECT_EQ(report.context_rows, 12);
  EXPECT_EQ(report.context, Context::kEncoded);
  ASSERT_TRUE(report.context_began.has_value() && report.context_ready.has_value());
  ASSERT_TRUE(report.admitted.has_value() && report.first_step.has_value());
  EXPECT_LE(report.arrival, *report.context_began);
  EXPECT_LT(*report.context_began, *report.context_ready);
  EXPECT_LE(*report.context_ready, *report.admitted);
  EXPECT_LT(*report.admitted, *report.first_step);
  EXPECT_LE(*report.first_step, report.end);
  // The stages are all of the time before admission.
  EXPECT_EQ(report.queued,
            (*report.context_began - report.arrival) + (*report.admitted - *report.context_ready));
  EXPECT_EQ(report.encoding, *report.context_ready - *report.context_began);
}

TEST_F(CallReportTest, ACallOnAResidentContextIsQueuedUntilItsAdmission) {
  StartEngine();
  Register("c");
  MakeResident("c");
  const CallReport report = Draw("c");
  EXPECT_EQ(report.context, Context::kResident);
  EXPECT_FALSE(report.context_began.has_value());
  EXPECT_FALSE(report.context_ready.has_value());
  ASSERT_TRUE(report.admitted.has_value());
  EXPECT_EQ(report.queued, *report.admitted - report.arrival);
  EXPECT_EQ(report.encoding, absl::ZeroDuration());
}

TEST_F(CallReportTest, ARestoredContextIsToldFromAnEncodedOne) {
  backend_options_.context_pool_bytes = 1280;  // two contexts of ten rows
  backend_options_.host_context_pool_bytes = 1280;
  StartEngine();
  for (const char* name : {"a", "b", "c"}) Register(name);
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(Draw(name).context, Context::kEncoded);
  const CallReport report = Draw("a");
  EXPECT_EQ(report.context, Context::kRestored);
  EXPECT_TRUE(report.context_began.has_value() && report.context_ready.has_value());
}

TEST_F(CallReportTest, AFailedCallTellsHowFarItCame) {
  StartEngine();
  const CallReport unknown = Draw("nobody");
  EXPECT_EQ(unknown.context, Context::kNotReached);
  EXPECT_EQ(unknown.model, "");
  EXPECT_FALSE(unknown.admitted.has_value());
  EXPECT_GE(unknown.end, unknown.arrival);
  EXPECT_EQ(unknown.queued, unknown.end - unknown.arrival);

  Register("c");
  backend_.CloseGate();
  const auto reported = std::make_shared<Reported>();
  auto recorder = std::make_shared<SampleRecorder>();
  const std::shared_ptr<Call> call =
      engine_->Sample(ReportTo(reported), SampleOf("c", 1, 2), recorder);
  EXPECT_EVENTUALLY(StateOf("c") == ContextState::kEncoding);
  call->Cancel();
  backend_.OpenGate();
  EXPECT_TRUE(absl::IsCancelled(recorder->Wait()));
  ASSERT_TRUE(reported->report.has_value());
  EXPECT_EQ(reported->report->context, Context::kEncoded);
  EXPECT_TRUE(reported->report->context_began.has_value());
  EXPECT_FALSE(reported->report->admitted.has_value());
}

TEST_F(CallReportTest, EveryKindOfCallReports) {
  StartEngine();
  Register("c");

  const auto of_warm = std::make_shared<Reported>();
  Answer<ContextInfo> warmed;
  engine_->Warm(ReportTo(of_warm), {"c"}, warmed.callback());
  ASSERT_TRUE(warmed.Wait().ok());
  ASSERT_EQ(of_warm->times, 1);
  EXPECT_TRUE(of_warm->report->context_ready.has_value());
  EXPECT_FALSE(of_warm->report->admitted.has_value());

  const auto of_predict = std::make_shared<Reported>();
  Answer<PredictResult> predicted;
  engine_->Predict(ReportTo(of_predict), PredictOf("c", 3), predicted.callback());
  ASSERT_TRUE(predicted.Wait().ok());
  ASSERT_EQ(of_predict->times, 1);
  EXPECT_TRUE(of_predict->report->admitted.has_value());
  EXPECT_TRUE(of_predict->report->first_step.has_value());

  const auto of_density = std::make_shared<Reported>();
  Answer<LogDensityResult> densities;
  engine_->LogDensity(ReportTo(of_density), DensityOf("c", 2, 3), densities.callback());
  ASSERT_TRUE(densities.Wait().ok());
  ASSERT_EQ(of_density->times, 1);
  EXPECT_TRUE(of_density->report->admitted.has_value());
}

}  // namespace
}  // namespace chorale::testing
