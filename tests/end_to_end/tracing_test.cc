// Traces and log lines of the shipped binary.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/server_process.h"
#include "tests/server/tracing/fake_collector.h"
#include "tests/support/eventually.h"

namespace chorale::end_to_end {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSpan[] = "00f067aa0ba902b7";

class TracingTest : public ::testing::Test {
 protected:
  void StartServer(std::vector<std::string> flags) {
    server_ =
        ServerProcess::Start({.models = {GoldenFolder("golden_tiny")}, .flags = std::move(flags)});
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
    ASSERT_TRUE(client_->Register("data", RandomRows(50, 3, 1)).ok());
  }
  void TearDown() override {
    client_.reset();  // an idle client takes seconds to see that its server says goodbye
    if (server_ != nullptr) server_->Terminate();
  }

  // A Sample call with these headers.
  void Sample(const std::vector<std::pair<std::string, std::string>>& headers) const {
    grpc::ClientContext context;
    for (const auto& [key, value] : headers) context.AddMetadata(key, value);
    auto reader = client_->stub().Sample(&context, MakeSample("data", RandomRows(6, 3, 2), 5, 1));
    v1::SampleResponse response;
    while (reader->Read(&response)) {
    }
    ASSERT_TRUE(reader->Finish().ok());
  }

  // The log's line of the call with this request id.
  std::string LineOf(const std::string& request_id) const {
    std::string found;
    EXPECT_TRUE(Eventually([&] {
      for (const absl::string_view line : absl::StrSplit(server_->log(), '\n')) {
        if (absl::StrContains(line, absl::StrCat("request_id=", request_id, " "))) {
          found = std::string(line);
        }
      }
      return !found.empty();
    })) << server_->log();
    return found;
  }

  FakeCollector collector_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(TracingTest, ASampleCallIsOneTraceAndItsLineNamesIt) {
  StartServer({absl::StrCat("--trace_endpoint=", collector_.endpoint()), "--trace_sample_rate=0"});
  Sample({{"traceparent", absl::StrCat("00-", kTrace, "-", kSpan, "-01")},
          {"x-request-id", "the-call"}});
  EXPECT_THAT(
      LineOf("the-call"),
      AllOf(HasSubstr("method=Sample code=OK"), HasSubstr(absl::StrCat("trace_id=", kTrace)),
            HasSubstr("tenant=default context=data client=host:127.0.0.1 paths=5 query_rows=6"),
            HasSubstr("values=30"), HasSubstr("model=golden_tiny rows=50"),
            HasSubstr("queue_seconds="), HasSubstr("encode_seconds="),
            HasSubstr("first_step_seconds=")));

  ASSERT_TRUE(collector_.WaitForSpans(6));
  const std::vector<FakeCollector::Span> spans = collector_.spans();
  const FakeCollector::Span& call = spans[0];
  EXPECT_EQ(call.name(), "chorale.v1.Chorale/Sample");
  EXPECT_EQ(call.kind(), FakeCollector::Span::SPAN_KIND_SERVER);
  EXPECT_EQ(absl::BytesToHexString(call.parent_span_id()), kSpan);
  EXPECT_EQ(AttributeOf(call, "rpc.system"), "grpc");
  EXPECT_EQ(AttributeOf(call, "rpc.method"), "Sample");
  EXPECT_EQ(AttributeOf(call, "chorale.request_id"), "the-call");
  EXPECT_EQ(AttributeOf(call, "chorale.model"), "golden_tiny");
  EXPECT_EQ(AttributeOf(call, "chorale.rows"), "50");
  EXPECT_EQ(AttributeOf(call, "chorale.values"), "30");
  std::vector<std::string> stages;
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(absl::BytesToHexString(spans[i].trace_id()), kTrace);
    EXPECT_LE(spans[i].start_time_unix_nano(), spans[i].end_time_unix_nano());
    EXPECT_GE(spans[i].start_time_unix_nano(), call.start_time_unix_nano());
    EXPECT_LE(spans[i].end_time_unix_nano(), call.end_time_unix_nano());
    if (i == 0) continue;
    stages.push_back(spans[i].name());
    EXPECT_EQ(spans[i].parent_span_id(), call.span_id());
  }
  EXPECT_THAT(stages, ElementsAre("queue", "encode", "queue", "steps", "write"));

  // The registration and the health checks were not sampled; neither is this.
  Sample({{"x-request-id", "another"}});
  EXPECT_THAT(LineOf("another"), ::testing::Not(HasSubstr(kTrace)));
  EXPECT_EQ(PrometheusPage::Fetch(server_->metrics_address()).Value("chorale_spans_dropped_total"),
            0);
}

TEST_F(TracingTest, WhatIsQueuedIsSentAtTheEnd) {
  StartServer({absl::StrCat("--trace_endpoint=", collector_.endpoint()), "--trace_sample_rate=1"});
  Sample({});
  client_.reset();
  server_->Terminate();
  int calls = 0;
  for (const auto& span : collector_.spans()) {
    calls += span.kind() == FakeCollector::Span::SPAN_KIND_SERVER ? 1 : 0;
  }
  EXPECT_EQ(calls, 2);  // with the registration
  server_.reset();
}

TEST_F(TracingTest, ADeadCollectorDisturbsNoCallAndNoShutdown) {
  collector_.Stop();
  StartServer({absl::StrCat("--trace_endpoint=", collector_.endpoint()), "--trace_sample_rate=1"});
  for (int i = 0; i < 20; ++i) Sample({});
  // TearDown ends the server, which must not fail for it.
}

TEST_F(TracingTest, SlowCallsAreWarnings) {
  StartServer({"--slow_call=1us"});
  Sample({{"x-request-id", "slow"}});
  EXPECT_THAT(LineOf("slow"), AllOf(HasSubstr("warning request"), HasSubstr("slow=true")));
}

}  // namespace
}  // namespace chorale::end_to_end
