#include "server/tracing/span_exporter.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "tests/server/tracing/fake_collector.h"
#include "tests/support/eventually.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;

class SpanExporterTest : public ::testing::Test {
 protected:
  SpanExporterTest() {
    options_.endpoint = collector_.endpoint();
    options_.resource = {"1.2.3", "an-instance"};
    options_.batch_delay = absl::ZeroDuration();
    options_.first_backoff = absl::Milliseconds(1);
    options_.max_backoff = absl::Milliseconds(10);
    options_.export_timeout = kPatience;
    options_.flush_timeout = kPatience;
  }

  void Start() {
    exporter_.emplace(Clock::Real(), options_, [this](int64_t count) { dropped_ += count; });
  }

  void Export(int count) {
    std::vector<Span> spans;
    for (int i = 0; i < count; ++i) {
      Span span;
      span.trace_id[0] = 1;
      span.span_id[0] = 1;
      span.name = absl::StrCat("span ", exported_++);
      spans.push_back(std::move(span));
    }
    exporter_->Export(std::move(spans));
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& span : collector_.spans()) names.push_back(span.name());
    return names;
  }

  FakeCollector collector_;
  SpanExporterOptions options_;
  std::atomic<int64_t> dropped_{0};
  int exported_ = 0;
  std::optional<SpanExporter> exporter_;
};

TEST_F(SpanExporterTest, DeliversSpansAndSaysWhoSendsThem) {
  Start();
  Export(2);
  ASSERT_TRUE(collector_.WaitForSpans(2));
  EXPECT_THAT(Names(), ElementsAre("span 0", "span 1"));
  const FakeCollector::Request request = collector_.last_request();
  const auto& resource = request.resource_spans(0).resource();
  std::vector<std::string> attributes;
  for (const auto& attribute : resource.attributes()) {
    attributes.push_back(absl::StrCat(attribute.key(), "=", attribute.value().string_value()));
  }
  EXPECT_THAT(attributes, ElementsAre("service.name=chorale", "service.version=1.2.3",
                                      "service.instance.id=an-instance"));
  exporter_.reset();
  EXPECT_EQ(dropped_, 0);
}

TEST_F(SpanExporterTest, WaitsForFurtherSpansUpToABatch) {
  options_.batch_delay = absl::Hours(1);
  options_.max_batch = 4;
  Start();
  Export(3);
  Export(3);
  ASSERT_TRUE(collector_.WaitForSpans(4));
  EXPECT_EQ(collector_.batches(), 1);
  exporter_.reset();  // sends the rest
  EXPECT_EQ(collector_.batches(), 2);
  EXPECT_EQ(Names().size(), 6u);
  EXPECT_EQ(dropped_, 0);
}

TEST_F(SpanExporterTest, RepeatsWhenTheCollectorIsUnavailable) {
  collector_.SetAnswer([](int64_t attempt, FakeCollector::Response* /*response*/) {
    return attempt < 3 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "not now") : grpc::Status::OK;
  });
  Start();
  Export(2);
  ASSERT_TRUE(collector_.WaitForSpans(2));
  exporter_.reset();
  EXPECT_EQ(collector_.attempts(), 3);
  EXPECT_THAT(Names(), ElementsAre("span 0", "span 1"));
  EXPECT_EQ(dropped_, 0);
}

TEST_F(SpanExporterTest, GivesUpAfterSomeAttempts) {
  collector_.SetAnswer([](int64_t /*attempt*/, FakeCollector::Response* /*response*/) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "never");
  });
  options_.max_attempts = 3;
  Start();
  Export(2);
  EXPECT_TRUE(Eventually([&] { return dropped_ == 2; }));
  EXPECT_EQ(collector_.attempts(), 3);
  // The next ones are tried again.
  collector_.SetAnswer(nullptr);
  Export(1);
  ASSERT_TRUE(collector_.WaitForSpans(1));
  EXPECT_THAT(Names(), ElementsAre("span 2"));
}

TEST_F(SpanExporterTest, DoesNotRepeatWhatTheCollectorRefuses) {
  for (const grpc::StatusCode code :
       {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::UNIMPLEMENTED,
        grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::INTERNAL}) {
    const int64_t attempts = collector_.attempts();
    dropped_ = 0;
    collector_.SetAnswer([code](int64_t /*attempt*/, FakeCollector::Response* /*response*/) {
      return grpc::Status(code, "no");
    });
    Start();
    Export(3);
    EXPECT_TRUE(Eventually([&] { return dropped_ == 3; }));
    exporter_.reset();
    EXPECT_EQ(collector_.attempts(), attempts + 1) << code;
  }
}

TEST_F(SpanExporterTest, ComesBackWhenAFullCollectorSaysWhen) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_nanos(1'000'000);
  google::rpc::Status details;
  details.add_details()->PackFrom(retry);
  const grpc::Status full(grpc::StatusCode::RESOURCE_EXHAUSTED, "full",
                          details.SerializeAsString());
  collector_.SetAnswer([full](int64_t attempt, FakeCollector::Response* /*response*/) {
    return attempt == 1 ? full : grpc::Status::OK;
  });
  Start();
  Export(1);
  ASSERT_TRUE(collector_.WaitForSpans(1));
  EXPECT_EQ(collector_.attempts(), 2);
  EXPECT_EQ(dropped_, 0);
}

TEST_F(SpanExporterTest, CountsSpansThatTheCollectorRejects) {
  collector_.SetAnswer([](int64_t /*attempt*/, FakeCollector::Response* response) {
    response->mutable_partial_success()->set_rejected_spans(2);
    return grpc::Status::OK;
  });
  Start();
  Export(5);
  EXPECT_TRUE(Eventually([&] { return dropped_ == 2; }));
  EXPECT_EQ(collector_.attempts(), 1);
}

TEST_F(SpanExporterTest, ASlowCollectorCostsOnlyTheSpansForWhichThereIsNoRoom) {
  collector_.Hold();
  options_.max_queued = 10;
  options_.max_batch = 5;
  Start();
  Export(5);
  ASSERT_TRUE(collector_.WaitForAttempts(1));
  for (int i = 0; i < 5; ++i) Export(3);  // three calls fit, two do not
  EXPECT_EQ(dropped_, 6);
  collector_.Release();
  ASSERT_TRUE(collector_.WaitForSpans(14));
  exporter_.reset();
  EXPECT_EQ(Names().size(), 14u);
  EXPECT_EQ(dropped_, 6);
}

TEST_F(SpanExporterTest, ADeadCollectorIsFoundWhenItComesBack) {
  collector_.Stop();
  options_.max_attempts = 1'000'000;
  options_.first_backoff = absl::Milliseconds(10);
  options_.max_backoff = absl::Milliseconds(100);
  Start();
  Export(2);
  collector_.Start();
  ASSERT_TRUE(collector_.WaitForSpans(2));
  EXPECT_THAT(Names(), ElementsAre("span 0", "span 1"));
  collector_.Stop();
  Export(1);
  collector_.Start();
  ASSERT_TRUE(collector_.WaitForSpans(3));
  EXPECT_EQ(dropped_, 0);
}

TEST_F(SpanExporterTest, EndsAtOnceWhenTheCollectorIsDead) {
  collector_.Stop();
  options_.max_attempts = 1'000'000;
  options_.first_backoff = absl::Hours(1);
  options_.max_backoff = absl::Hours(1);
  options_.flush_timeout = absl::Hours(1);
  options_.max_batch = 2;
  Start();
  for (int i = 0; i < 10; ++i) Export(1);
  exporter_.reset();  // a test that waits for one of the hours never ends
  EXPECT_EQ(dropped_, 10);
}

TEST_F(SpanExporterTest, EndsInTimeWhenTheCollectorDoesNotAnswer) {
  collector_.Hold();
  options_.export_timeout = absl::Hours(1);
  options_.flush_timeout = absl::Milliseconds(50);
  options_.max_batch = 2;
  Start();
  for (int i = 0; i < 5; ++i) Export(2);
  ASSERT_TRUE(collector_.WaitForAttempts(1));
  exporter_.reset();
  EXPECT_EQ(dropped_, 10);
}

}  // namespace
}  // namespace chorale
