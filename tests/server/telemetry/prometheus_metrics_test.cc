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
                             "chorale_summary_seconds_count",
                             "chorale_flops_total{work=\"encode\"}",
                             "chorale_flops_total{work=\"predict\"}",
                             "chorale_inflight_requests{method=\"Sample\"}",
                             "chorale_encode_seconds_count",
                             "chorale_restore_seconds_count",
                             "chorale_evictions_total{reason=\"dropped\"}",
                             "chorale_evictions_total{reason=\"host_pool_full\"}",
                             "chorale_evictions_total{reason=\"model_unloaded\"}",
                             "chorale_context_lookups_total{result=\"miss\"}",
                             "chorale_memory_set_keys_total{policy=\"merge\"}",
                             "chorale_appends_total",
                             "chorale_appended_rows_total",
                             "chorale_encodings_anew_total{outcome=\"replaced\"}",
                             "chorale_stalled_streams_total",
                             "chorale_spans_dropped_total",
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
  metrics.Lookup(ContextLookup::kHostHit);
  metrics.Lookup(ContextLookup::kDiskHit);
  metrics.Lookup(ContextLookup::kDiskHit);
  metrics.Eviction(EvictionReason::kSavedToHost);
  metrics.Rejected("queue_full");
  metrics.Rejected("a reason that nobody has heard of");
  metrics.Values(WorkKind::kDecode, "t", "m", 1000);
  metrics.Values(WorkKind::kDecode, "t", "m", 24);
  metrics.Values(WorkKind::kDensity, "u", "m", 7);
  metrics.Values(WorkKind::kPredict, "u", "n", 5);
  metrics.EncodedRows("n", 300);
  metrics.MemorySetKeys(MemoryPolicy::kHeavy, 64);
  metrics.MemorySetKeys(MemoryPolicy::kSample, 100);
  metrics.MemorySetKeys(MemoryPolicy::kSample, 28);
  metrics.AppendedRows(16);
  metrics.AppendedRows(4);
  metrics.EncodedAnew(EncodedAnewOutcome::kReplaced);
  metrics.EncodedAnew(EncodedAnewOutcome::kChanged);
  metrics.EncodedAnew(EncodedAnewOutcome::kFailed);
  metrics.EncodedAnew(EncodedAnewOutcome::kFailed);
  metrics.Flops(WorkKind::kRows, 1e9);
  metrics.EngineTime("t", absl::Milliseconds(250));
  metrics.SummaryTime(absl::Milliseconds(5));
  for (int i = 0; i < 3; ++i) metrics.RequestBegun(Method::kSample, "t");
  metrics.RequestDone(Method::kSample, "t", absl::StatusCode::kOk, absl::Milliseconds(10));
  metrics.RequestDone(Method::kSample, "t", absl::StatusCode::kNotFound, absl::Milliseconds(10));
  metrics.StreamStarted();
  metrics.StreamStarted();
  metrics.StreamEnded();
  metrics.StalledStreams(2);
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
           "chorale_context_lookups_total{result=\"hit\"} 0",
           "chorale_context_lookups_total{result=\"host_hit\"} 1",
           "chorale_context_lookups_total{result=\"disk_hit\"} 2",
           "chorale_evictions_total{reason=\"saved_to_host\"} 1",
           "chorale_evictions_total{reason=\"dropped\"} 0",
           "chorale_rejected_total{reason=\"queue_full\"} 1",
           "chorale_rejected_total{reason=\"other\"} 1",
           "chorale_values_total{method=\"Sample\",model=\"m\"} 1024",
           "chorale_values_total{method=\"LogDensity\",model=\"m\"} 7",
           "chorale_values_total{method=\"Predict\",model=\"m\"} 0",
           "chorale_values_total{method=\"Predict\",model=\"n\"} 5",
           "chorale_encoded_rows_total{model=\"n\"} 300",
           "chorale_memory_set_keys_total{policy=\"merge\"} 0",
           "chorale_memory_set_keys_total{policy=\"heavy\"} 64",
           "chorale_memory_set_keys_total{policy=\"sample\"} 128",
           "chorale_appends_total 2",
           "chorale_appended_rows_total 20",
           "chorale_encodings_anew_total{outcome=\"replaced\"} 1",
           "chorale_encodings_anew_total{outcome=\"changed\"} 1",
           "chorale_encodings_anew_total{outcome=\"failed\"} 2",
           "chorale_flops_total{work=\"rows\"} 1000000000",
           "chorale_summary_seconds_sum 0.005",
           "chorale_inflight_requests{method=\"Sample\"} 1",
           "chorale_tenant_values_total{tenant=\"t\"} 1024",
           "chorale_tenant_values_total{tenant=\"u\"} 12",
           "chorale_tenant_engine_seconds_total{tenant=\"t\"} 0.25",
           "chorale_tenant_requests_total{method=\"Sample\",tenant=\"t\"} 2",
           "chorale_tenant_inflight_requests{tenant=\"t\"} 1",
           "chorale_requests_total{code=\"OK\",method=\"Sample\"} 1",
           "chorale_requests_total{code=\"NOT_FOUND\",method=\"Sample\"} 1",
           "chorale_requests_total{code=\"OK\",method=\"Predict\"} 0",
           "chorale_request_duration_seconds_count{method=\"Sample\"} 2",
           "chorale_streams_live 1",
           "chorale_stalled_streams_total 2",
       }) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("\n", line, "\n"))) << line;
  }
}

TEST(PrometheusMetricsTest, RefusalsByQuota) {
  PrometheusMetrics metrics;
  metrics.QuotaExceeded(Method::kRegisterContext, "t", "max_contexts");
  metrics.QuotaExceeded(Method::kRegisterContext, "t", "max_contexts");
  metrics.QuotaExceeded(Method::kRegisterContext, "t", "no such quota");
  EXPECT_THAT(Page(metrics),
              HasSubstr("\nchorale_quota_refusals_total{method=\"RegisterContext\"} 2\n"));
  double total = 0;
  for (const prometheus::MetricFamily& family : metrics.registry()->Collect()) {
    if (family.name != "chorale_tenant_quota_refusals_total") continue;
    for (const auto& metric : family.metric) {
      const std::string quota = metric.label[0].value;
      EXPECT_EQ(metric.counter.value, quota == "max_contexts" ? 2 : 0) << quota;
      total += metric.counter.value;
    }
  }
  EXPECT_EQ(total, 2);
}

// The main rules of `promtool check metrics`, without promtool.
TEST(PrometheusMetricsTest, NamesFollowTheRules) {
  PrometheusMetrics metrics;
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

TEST(PrometheusMetricsTest, TheNumberOfSeriesIsBounded) {
  PrometheusMetrics metrics;
  for (int i = 0; i < 1000; ++i) {
    metrics.RequestBegun(Method::kSample, absl::StrCat("tenant", i));
    metrics.Values(WorkKind::kDecode, absl::StrCat("tenant", i), absl::StrCat("model", i), 1);
    metrics.EncodedRows(absl::StrCat("model", i), 1);
  }
  const auto series_of = [&](const char* name) {
    for (const prometheus::MetricFamily& family : metrics.registry()->Collect()) {
      if (family.name == name) return family.metric.size();
    }
    return size_t{0};
  };
  EXPECT_EQ(series_of("chorale_tenant_inflight_requests"), 101);
  EXPECT_EQ(series_of("chorale_tenant_requests_total"), 101 * kMethodNames.size());
  EXPECT_EQ(series_of("chorale_encoded_rows_total"), 51);
  EXPECT_EQ(series_of("chorale_values_total"), 3 * 51);
  const std::string page = Page(metrics);
  EXPECT_THAT(page, HasSubstr("chorale_tenant_inflight_requests{tenant=\"tenant99\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("chorale_tenant_inflight_requests{tenant=\"other\"} 900\n"));
  EXPECT_THAT(page, HasSubstr("chorale_encoded_rows_total{model=\"other\"} 950\n"));
}

}  // namespace
}  // namespace chorale
