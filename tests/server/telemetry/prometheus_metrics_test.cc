#include "server/telemetry/prometheus_metrics.h"

#include <prometheus/text_serializer.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Page(const PrometheusMetrics& metrics) {
  return prometheus::TextSerializer().Serialize(metrics.registry()->Collect());
}

TEST(PrometheusMetricsTest, EverySeriesStartsAtZero) {
  const PrometheusMetrics metrics;
  const std::string page = Page(metrics);
  for (const char* method : kMethodNames) {
    for (const char* code : {"OK", "CANCELLED", "INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL",
                             "RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED"}) {
      EXPECT_THAT(page, HasSubstr(absl::StrCat("chorale_requests_total{code=\"", code,
                                               "\",method=\"", method, "\"} 0\n")));
    }
    EXPECT_THAT(page, HasSubstr(absl::StrCat("chorale_request_duration_seconds_count{method=\"",
                                             method, "\"} 0\n")));
  }
  for (const char* series : {"chorale_queue_seconds_count",
                             "chorale_time_to_first_step_seconds_count",
                             "chorale_step_seconds_count",
                             "chorale_tick_seconds_count",
                             "chorale_tick_slices_count",
                             "chorale_encode_seconds_count",
                             "chorale_restore_seconds_count",
                             "chorale_path_steps_total",
                             "chorale_evictions_total",
                             "chorale_stalled_streams_total",
                             "chorale_resident_contexts",
                             "chorale_context_bytes",
                             "chorale_context_pool_bytes",
                             "chorale_buffer_bytes",
                             "chorale_buffer_pool_bytes",
                             "chorale_sessions{state=\"running\"}",
                             "chorale_sessions{state=\"queued\"}",
                             "chorale_streams_live",
                             "chorale_rejected_total{reason=\"queue_full\"}",
                             "chorale_rejected_total{reason=\"queue_timeout\"}"}) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("\n", series, " 0\n"))) << series;
  }
}

TEST(PrometheusMetricsTest, EventsReachTheirSeries) {
  PrometheusMetrics metrics;
  metrics.QueueTime(absl::Milliseconds(2));
  metrics.TimeToFirstStep(absl::Milliseconds(3));
  metrics.StepTimes(absl::Microseconds(20), 3);
  metrics.StepTimes(absl::Milliseconds(1), 2);  // a bucket's limit belongs to it
  metrics.StepTimes(absl::Seconds(2), 1);
  metrics.TickTime(absl::Microseconds(700), 5);
  metrics.EncodeTime(absl::Seconds(1));
  metrics.RestoreTime(absl::Milliseconds(4));
  metrics.Eviction();
  metrics.Rejected("queue_full");
  metrics.Rejected("a reason that nobody has heard of");
  metrics.PathSteps(1000);
  metrics.PathSteps(24);
  metrics.ResidentContexts(3, 4096);
  metrics.BufferBytes(512);
  metrics.Sessions(7, 9);
  metrics.RequestDone(Method::kSample, absl::StatusCode::kOk, absl::Milliseconds(10));
  metrics.RequestDone(Method::kSample, absl::StatusCode::kNotFound, absl::Milliseconds(10));
  metrics.StreamStarted();
  metrics.StreamStarted();
  metrics.StreamEnded();
  metrics.StalledStreams(2);
  metrics.PoolBytes(1 << 20, 2 << 20);
  metrics.BuildInfo("1.2.3", "cpu AVX2");
  const std::string page = Page(metrics);
  for (const char* line : {
           "chorale_queue_seconds_sum 0.002",
           "chorale_queue_seconds_bucket{le=\"0.001\"} 0",
           "chorale_queue_seconds_bucket{le=\"0.0025\"} 1",
           "chorale_time_to_first_step_seconds_count 1",
           "chorale_step_seconds_bucket{le=\"1e-05\"} 0",
           "chorale_step_seconds_bucket{le=\"2.5e-05\"} 3",
           "chorale_step_seconds_bucket{le=\"0.0005\"} 3",
           "chorale_step_seconds_bucket{le=\"0.001\"} 5",
           "chorale_step_seconds_bucket{le=\"1\"} 5",
           "chorale_step_seconds_count 6",
           "chorale_step_seconds_sum 2.00206",
           "chorale_tick_seconds_count 1",
           "chorale_tick_slices_sum 5",
           "chorale_encode_seconds_sum 1",
           "chorale_restore_seconds_sum 0.004",
           "chorale_evictions_total 1",
           "chorale_rejected_total{reason=\"queue_full\"} 1",
           "chorale_rejected_total{reason=\"other\"} 1",
           "chorale_path_steps_total 1024",
           "chorale_resident_contexts 3",
           "chorale_context_bytes 4096",
           "chorale_buffer_bytes 512",
           "chorale_sessions{state=\"running\"} 7",
           "chorale_sessions{state=\"queued\"} 9",
           "chorale_requests_total{code=\"OK\",method=\"Sample\"} 1",
           "chorale_requests_total{code=\"NOT_FOUND\",method=\"Sample\"} 1",
           "chorale_requests_total{code=\"OK\",method=\"Predict\"} 0",
           "chorale_request_duration_seconds_count{method=\"Sample\"} 2",
           "chorale_streams_live 1",
           "chorale_stalled_streams_total 2",
           "chorale_context_pool_bytes 1048576",
           "chorale_buffer_pool_bytes 2097152",
           "chorale_build_info{backend=\"cpu AVX2\",version=\"1.2.3\"} 1",
       }) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("\n", line, "\n"))) << line;
  }
}

// The main rules of `promtool check metrics`, without promtool.
TEST(PrometheusMetricsTest, NamesFollowTheRules) {
  PrometheusMetrics metrics;
  metrics.BuildInfo("1", "cpu");
  for (const prometheus::MetricFamily& family : metrics.registry()->Collect()) {
    EXPECT_THAT(family.name, ::testing::MatchesRegex("chorale_[a-z_]+"));
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_EQ(family.type == prometheus::MetricType::Counter, absl::EndsWith(family.name, "_total"))
        << family.name;
    EXPECT_THAT(family.name, Not(HasSubstr("_ms")));
    EXPECT_THAT(family.name, Not(HasSubstr("_us")));
    EXPECT_FALSE(family.metric.empty()) << family.name;
  }
}

}  // namespace
}  // namespace chorale
