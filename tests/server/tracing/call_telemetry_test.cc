// What becomes known of calls to a server with a fake engine: log lines, request ids and traces.
#include "server/tracing/call_telemetry.h"

#include <spdlog/logger.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/log_recorder.h"
#include "tests/server/server_fixture.h"
#include "tests/server/tracing/fake_collector.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::UnorderedElementsAre;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSpan[] = "00f067aa0ba902b7";

class CallTelemetryTest : public ServerFixture {
 protected:
  void SetUp() override {
    previous_ = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", log_));
    options_.trace_endpoint = collector_.endpoint();
    options_.trace_sample_rate = 0;
    engine_->report.model = "base";
    engine_->report.context_rows = 77;
    engine_->report.queued = absl::Milliseconds(250);
    engine_->on_predict = [](const PredictRequest& request) {
      PredictResult result;
      result.mean.assign(request.query_rows.rows(), 2.5);
      return result;
    };
    StartServer();
    OpenServer();
  }
  ~CallTelemetryTest() override {
    server_.reset();  // before the collector, and before the log
    spdlog::set_default_logger(previous_);
  }

  // The request id that came back: ahead of an answer, or with an error and nothing ahead of it.
  std::string Predict(const std::vector<std::pair<std::string, std::string>>& headers,
                      const v1::PredictRequest& request = PredictMessage()) {
    auto context = NewContext();
    for (const auto& [key, value] : headers) context->AddMetadata(key, value);
    v1::PredictResponse response;
    const grpc::Status status = stub_->Predict(context.get(), request, &response);
    if (!status.ok()) {
      EXPECT_THAT(context->GetServerInitialMetadata(), IsEmpty());
    }
    return IdIn(status.ok() ? context->GetServerInitialMetadata()
                            : context->GetServerTrailingMetadata());
  }
  static std::string IdIn(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
    if (metadata.count("x-request-id") != 1) return "(none, or several)";
    const grpc::string_ref id = metadata.find("x-request-id")->second;
    return {id.data(), id.size()};
  }

  // The line of the call with this request id; a call is logged a little after its client knows.
  std::string LineOf(const std::string& request_id) {
    std::string found;
    EXPECT_TRUE(Eventually([&] {
      for (const std::string& line : log_->lines()) {
        if (absl::StrContains(line, absl::StrCat(" request_id=", request_id, " ")) &&
            absl::StrContains(line, " request ")) {
          found = line;
        }
      }
      return !found.empty();
    })) << request_id;
    return found;
  }

  static std::string Parent(bool sampled) {
    return absl::StrCat("00-", kTrace, "-", kSpan, sampled ? "-01" : "-00");
  }

  const std::shared_ptr<LogRecorder> log_ = std::make_shared<LogRecorder>();
  std::shared_ptr<spdlog::logger> previous_;
  FakeCollector collector_;
};

TEST_F(CallTelemetryTest, TheLineHasEverythingAboutTheCall) {
  EXPECT_EQ(Predict({{"x-request-id", "mine-1"}, {"traceparent", Parent(false)}}), "mine-1");
  EXPECT_THAT(
      LineOf("mine-1"),
      MatchesRegex(absl::StrCat(
          "info request method=Predict code=OK seconds=[0-9.e-]+ request_id=mine-1 "
          "trace_id=",
          kTrace,
          " tenant=default context=houses client=host:127.0.0.1 query_rows=3 model=base rows=77 "
          "queue_seconds=0.25 encode_seconds=0")));
}

TEST_F(CallTelemetryTest, AllCallsGetARequestIdAlsoThoseThatFail) {
  const std::string made = Predict({});
  EXPECT_THAT(made, MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(Predict({{"x-request-id", "with space"}}), "with space");
  EXPECT_NE(Predict({{"x-request-id", std::string(129, 'x')}}), std::string(129, 'x'));
  // Which of two?
  EXPECT_THAT(Predict({{"x-request-id", "a"}, {"x-request-id", "b"}}),
              MatchesRegex("[0-9a-f]{32}"));

  v1::PredictRequest bad = PredictMessage();
  bad.set_context("houses");
  EXPECT_EQ(Predict({{"x-request-id", "bad-1"}}, bad), "bad-1");
  EXPECT_THAT(LineOf("bad-1"), HasSubstr("code=INVALID_ARGUMENT"));
}

// Its headers go out before it is known how it ends.
TEST_F(CallTelemetryTest, RegistrationsReturnTheRequestIdInTheirHeadersWhateverTheOutcome) {
  for (const bool succeeds : {true, false}) {
    engine_->on_register = [succeeds](const RegisterRequest&,
                                      const Dataset&) -> absl::StatusOr<RegisterOutcome> {
      if (succeeds) return RegisterOutcome();
      return absl::ResourceExhaustedError("the disk is full");
    };
    const auto context = NewContext();
    context->AddMetadata("x-request-id", "mine-3");
    v1::RegisterContextRequest spec;
    spec.mutable_spec()->set_context_id("houses");
    spec.mutable_spec()->set_target_column("price");
    v1::RegisterContextRequest rows;
    AddNumeric(rows.mutable_rows(), "price", {1, 2});
    AddNumeric(rows.mutable_rows(), "age", {1, 2});
    v1::RegisterContextResponse response;
    const auto writer = stub_->RegisterContext(context.get(), &response);
    writer->Write(spec);
    writer->Write(rows);
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    EXPECT_EQ(status.error_message(), succeeds ? "" : "the disk is full");
    EXPECT_EQ(IdIn(context->GetServerInitialMetadata()), "mine-3");
    EXPECT_EQ(context->GetServerTrailingMetadata().count("x-request-id"), 0u);
  }
}

TEST_F(CallTelemetryTest, TheLineOfAnInternalErrorHasTheIdsToo) {
  engine_->on_predict = [](const PredictRequest&) -> absl::StatusOr<PredictResult> {
    return absl::InternalError("wires crossed");
  };
  Predict({{"x-request-id", "mine-2"}, {"traceparent", Parent(false)}});
  LineOf("mine-2");
  EXPECT_THAT(log_->lines(),
              ::testing::Contains(::testing::AllOf(
                  HasSubstr("error internal_error"), HasSubstr("wires crossed"),
                  HasSubstr(" request_id=mine-2"), HasSubstr(absl::StrCat(" trace_id=", kTrace)))));
}

TEST_F(CallTelemetryTest, SlowCallsAreWarningsAndTheLimitCanChange) {
  Predict({{"x-request-id", "quick"}});
  EXPECT_THAT(LineOf("quick"), ::testing::StartsWith("info "));
  server_->SetSlowCall(absl::Nanoseconds(1));
  Predict({{"x-request-id", "slow"}});
  EXPECT_THAT(LineOf("slow"), ::testing::StartsWith("warning "));
  EXPECT_THAT(LineOf("slow"), ::testing::EndsWith(" slow=true"));
  EXPECT_THAT(LineOf("slow"), HasSubstr(" queue_seconds=0.25 "));
  server_->SetSlowCall(absl::ZeroDuration());
  Predict({{"x-request-id", "unlimited"}});
  EXPECT_THAT(LineOf("unlimited"), ::testing::StartsWith("info "));
}

TEST_F(CallTelemetryTest, TheParentDecidesWhatIsSampled) {
  Predict({{"x-request-id", "root"}});  // at a rate of 0
  Predict({{"x-request-id", "no"}, {"traceparent", Parent(false)}});
  Predict({{"x-request-id", "yes"}, {"traceparent", Parent(true)}});
  // A malformed parent is none, and neither are two.
  Predict({{"x-request-id", "bad"}, {"traceparent", absl::StrCat(Parent(true), "-00")}});
  Predict({{"x-request-id", "two"}, {"traceparent", Parent(true)}, {"traceparent", Parent(true)}});
  for (const char* id : {"root", "no", "yes", "bad", "two"}) LineOf(id);
  EXPECT_THAT(LineOf("bad"), ::testing::Not(HasSubstr(kTrace)));
  EXPECT_THAT(LineOf("two"), ::testing::Not(HasSubstr(kTrace)));
  server_.reset();  // sends what there is
  std::vector<std::string> names;
  for (const auto& span : collector_.spans()) {
    names.push_back(span.name());
    if (span.kind() != FakeCollector::Span::SPAN_KIND_SERVER) continue;
    EXPECT_EQ(AttributeOf(span, "chorale.request_id"), "yes");
    EXPECT_EQ(absl::BytesToHexString(span.trace_id()), kTrace);
    EXPECT_EQ(absl::BytesToHexString(span.parent_span_id()), kSpan);
  }
  EXPECT_THAT(names, UnorderedElementsAre("chorale.v1.Chorale/Predict", "queue", "write"));
}

TEST_F(CallTelemetryTest, AStreamIsTraced) {
  auto context = NewContext();
  context->AddMetadata("traceparent", Parent(true));
  auto reader = stub_->Sample(context.get(), SampleMessage());
  const std::shared_ptr<FakeSample> sample = engine_->NextSample();
  ASSERT_NE(sample, nullptr);
  sample->Draw(0, 4, 0, 3);
  v1::SampleResponse response;
  ASSERT_TRUE(reader->Read(&response));
  sample->call->End(absl::OkStatus());
  while (reader->Read(&response)) {
  }
  ASSERT_TRUE(reader->Finish().ok());
  reader.reset();
  ASSERT_TRUE(Eventually([&] { return server_->live_calls() == 0; }));
  server_.reset();
  bool found = false;
  for (const auto& span : collector_.spans()) {
    if (span.kind() != FakeCollector::Span::SPAN_KIND_SERVER) continue;
    found = true;
    EXPECT_EQ(span.name(), "chorale.v1.Chorale/Sample");
    EXPECT_EQ(AttributeOf(span, "chorale.values"), "12");
    EXPECT_EQ(AttributeOf(span, "chorale.paths"), "4");
    EXPECT_EQ(AttributeOf(span, "chorale.model"), "base");
    EXPECT_EQ(AttributeOf(span, "rpc.grpc.status_code"), "0");
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace chorale
