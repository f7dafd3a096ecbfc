#include "server/tracing/call_spans.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;

// Seconds after the call's arrival at the server.
absl::Time At(double seconds) { return absl::FromUnixSeconds(100) + absl::Seconds(seconds); }
// The same moment on the wall clock of these tests.
constexpr absl::Duration kOffset = absl::Hours(1000);

CallRecord MakeRecord() {
  CallRecord record;
  record.method = Method::kSample;
  record.identity.request_id = "r-1";
  absl::BitGen random;
  record.identity.trace = MakeTraceContext(
      ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), 0, random);
  record.tenant = "default";
  record.notes = {{"context", "houses"}, {"paths", int64_t{7}}};
  record.arrival = At(0);
  record.end = At(10);
  record.write_began = At(6);
  CallReport report;
  report.model = "base";
  report.context_rows = 50;
  report.context = CallReport::Context::kEncoded;
  report.arrival = At(1);
  report.context_began = At(2);
  report.context_ready = At(4);
  report.admitted = At(5);
  report.first_step = At(6);
  report.end = At(9);
  report.queued = absl::Seconds(2);
  report.encoding = absl::Seconds(2);
  record.report = report;
  return record;
}

std::vector<Span> Spans(const CallRecord& record) {
  absl::BitGen random;
  return SpansOf(record, kOffset, random);
}

// "name from-to" of all but the first.
std::vector<std::string> Stages(const CallRecord& record) {
  std::vector<std::string> stages;
  const std::vector<Span> spans = Spans(record);
  for (size_t i = 1; i < spans.size(); ++i) {
    const auto seconds = [](absl::Time time) {
      return absl::ToDoubleSeconds(time - kOffset - At(0));
    };
    stages.push_back(
        absl::StrCat(spans[i].name, " ", seconds(spans[i].start), "-", seconds(spans[i].end)));
    EXPECT_EQ(spans[i].trace_id, spans[0].trace_id);
    EXPECT_EQ(spans[i].parent_id, spans[0].span_id);
    EXPECT_NE(spans[i].span_id, spans[0].span_id);
    EXPECT_FALSE(spans[i].parent_is_remote);
    EXPECT_EQ(spans[i].kind, Span::Kind::kInternal);
  }
  return stages;
}

TEST(CallSpansTest, TheCallsOwnSpanSaysWhatItWas) {
  const CallRecord record = MakeRecord();
  const Span span = Spans(record)[0];
  EXPECT_EQ(span.name, "chorale.v1.Chorale/Sample");
  EXPECT_EQ(span.kind, Span::Kind::kServer);
  EXPECT_EQ(span.trace_id, record.identity.trace.trace_id);
  EXPECT_EQ(span.span_id, record.identity.trace.span_id);
  EXPECT_EQ(ToHex(span.parent_id), "00f067aa0ba902b7");
  EXPECT_TRUE(span.parent_is_remote);
  EXPECT_EQ(span.start, At(0) + kOffset);
  EXPECT_EQ(span.end, At(10) + kOffset);
  EXPECT_FALSE(span.failed);
  EXPECT_EQ(FormatText("", span.attributes),
            " rpc.system=grpc rpc.service=chorale.v1.Chorale rpc.method=Sample "
            "rpc.grpc.status_code=0 chorale.request_id=r-1 chorale.tenant=default "
            "chorale.context=houses chorale.paths=7 chorale.model=base chorale.rows=50 "
            "chorale.queue_seconds=2 chorale.encode_seconds=2 chorale.first_step_seconds=5");
}

TEST(CallSpansTest, EveryStageHasASpan) {
  const CallRecord record = MakeRecord();
  EXPECT_THAT(Stages(record),
              ElementsAre("queue 1-2", "encode 2-4", "queue 4-5", "steps 5-9", "write 6-10"));
  const std::vector<Span> spans = Spans(record);
  ASSERT_EQ(spans[4].events.size(), 1u);
  EXPECT_EQ(spans[4].events[0].name, "first_step");
  EXPECT_EQ(spans[4].events[0].time, At(6) + kOffset);
}

TEST(CallSpansTest, AResidentContextHasNoSpan) {
  CallRecord record = MakeRecord();
  record.report->context = CallReport::Context::kResident;
  record.report->context_began = std::nullopt;
  record.report->context_ready = std::nullopt;
  EXPECT_THAT(Stages(record), ElementsAre("queue 1-5", "steps 5-9", "write 6-10"));
}

TEST(CallSpansTest, ARestoredContextSaysSo) {
  CallRecord record = MakeRecord();
  record.report->context = CallReport::Context::kRestored;
  EXPECT_EQ(Stages(record)[1], "restore 2-4");
}

TEST(CallSpansTest, AnEarlyEndCutsItsStage) {
  CallRecord record = MakeRecord();
  record.write_began = std::nullopt;
  record.report->end = At(3);
  record.report->first_step = record.report->admitted = record.report->context_ready = std::nullopt;
  EXPECT_THAT(Stages(record), ElementsAre("queue 1-2", "encode 2-3"));
  record.report->context_began = std::nullopt;
  EXPECT_THAT(Stages(record), ElementsAre("queue 1-3"));
  record.report = std::nullopt;
  EXPECT_THAT(Stages(record), ElementsAre());
}

TEST(CallSpansTest, AWarmingEndsWithItsContext) {
  CallRecord record = MakeRecord();
  record.method = Method::kWarmContext;
  record.report->end = At(4);
  record.report->admitted = record.report->first_step = std::nullopt;
  EXPECT_THAT(Stages(record), ElementsAre("queue 1-2", "encode 2-4", "write 6-10"));
}

TEST(CallSpansTest, OnlyTheServersFailuresAreErrors) {
  CallRecord record = MakeRecord();
  for (const auto& [code, failed] :
       std::vector<std::pair<absl::StatusCode, bool>>{{absl::StatusCode::kOk, false},
                                                      {absl::StatusCode::kCancelled, false},
                                                      {absl::StatusCode::kInvalidArgument, false},
                                                      {absl::StatusCode::kNotFound, false},
                                                      {absl::StatusCode::kResourceExhausted, false},
                                                      {absl::StatusCode::kDeadlineExceeded, true},
                                                      {absl::StatusCode::kInternal, true},
                                                      {absl::StatusCode::kUnavailable, true}}) {
    record.code = code;
    EXPECT_EQ(Spans(record)[0].failed, failed) << code;
  }
}

}  // namespace
}  // namespace chorale
