// The metrics page of the shipped binary: every metric is there before the first call, and says
// what happened after some.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/eventually.h"

namespace chorale::end_to_end {
namespace {

constexpr int64_t kContextRows = 1200;  // 0.6 MB of golden_tiny: one fits into a pool of 1 MiB

class MetricsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = ServerProcess::Start({.models = {GoldenFolder("golden_tiny")},
                                    .flags = {"--context_pool_mib=1", "--buffer_pool_mib=64",
                                              "--registration_memory_mib=48"}});
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
  }
  void TearDown() override {
    client_.reset();  // an idle client takes seconds to see that its server says goodbye
    if (server_ != nullptr) server_->Terminate();
  }

  PrometheusPage Page() const { return PrometheusPage::Fetch(server_->metrics_address()); }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(MetricsTest, EveryMetricExistsFromTheBeginning) {
  const std::vector<std::pair<const char*, const char*>> metrics = {
      {"chorale_requests_total", "counter"},
      {"chorale_request_duration_seconds", "histogram"},
      {"chorale_inflight_requests", "gauge"},
      {"chorale_rejected_total", "counter"},
      {"chorale_connections", "gauge"},
      {"chorale_max_connections", "gauge"},
      {"chorale_connections_refused_total", "counter"},
      {"chorale_connections_ended_total", "counter"},
      {"chorale_memory_limit_bytes", "gauge"},
      {"chorale_memory_bytes", "gauge"},
      {"chorale_backlog_seconds", "gauge"},
      {"chorale_backlog_values", "gauge"},
      {"chorale_queue_seconds", "histogram"},
      {"chorale_waiting_clients", "gauge"},
      {"chorale_largest_client_share", "gauge"},
      {"chorale_time_to_first_step_seconds", "histogram"},
      {"chorale_step_seconds", "histogram"},
      {"chorale_tick_seconds", "histogram"},
      {"chorale_tick_slices", "histogram"},
      {"chorale_last_tick_age_seconds", "gauge"},
      {"chorale_summary_queue", "gauge"},
      {"chorale_summary_seconds", "histogram"},
      {"chorale_values_total", "counter"},
      {"chorale_encoded_rows_total", "counter"},
      {"chorale_memory_set_keys_total", "counter"},
      {"chorale_appends_total", "counter"},
      {"chorale_appended_rows_total", "counter"},
      {"chorale_encodings_anew_total", "counter"},
      {"chorale_flops_total", "counter"},
      {"chorale_encode_seconds", "histogram"},
      {"chorale_restore_seconds", "histogram"},
      {"chorale_evictions_total", "counter"},
      {"chorale_contexts", "gauge"},
      {"chorale_registered_contexts", "gauge"},
      {"chorale_dataset_bytes", "gauge"},
      {"chorale_data_disk_free_bytes", "gauge"},
      {"chorale_data_disk_full", "gauge"},
      {"chorale_pool_bytes", "gauge"},
      {"chorale_pool_used_bytes", "gauge"},
      {"process_cpu_seconds_total", "counter"},
      {"process_resident_memory_bytes", "gauge"},
      {"process_virtual_memory_bytes", "gauge"},
      {"process_open_fds", "gauge"},
      {"process_max_fds", "gauge"},
      {"process_start_time_seconds", "gauge"},
      {"process_threads", "gauge"},
      {"chorale_ready", "gauge"},
      {"chorale_draining", "gauge"},
      {"chorale_sessions", "gauge"},
      {"chorale_streams_live", "gauge"},
      {"chorale_stalled_streams_total", "counter"},
      {"chorale_spans_dropped_total", "counter"},
      {"chorale_build_info", "gauge"},
      {"chorale_backend_info", "gauge"},
      {"chorale_model_info", "gauge"},
  };
  const PrometheusPage page = Page();
  ASSERT_TRUE(page.ok());
  for (const auto& [name, type] : metrics) {
    EXPECT_EQ(page.Type(name), type) << name;
    EXPECT_TRUE(absl::StrContains(page.text(), absl::StrCat("# HELP ", name, " "))) << name;
    const std::string series =
        type == std::string("histogram") ? absl::StrCat(name, "_count") : name;
    EXPECT_TRUE(page.Has(series)) << series;
  }
  // Also for what has not happened yet, so that rates start at zero.
  EXPECT_TRUE(page.Has("chorale_requests_total", "method=\"Sample\""));
  EXPECT_TRUE(page.Has("chorale_requests_total", "code=\"RESOURCE_EXHAUSTED\""));
  EXPECT_EQ(page.Value("chorale_requests_total"), 0);
  EXPECT_EQ(page.Value("chorale_build_info"), 1);
  EXPECT_EQ(page.Value("chorale_model_info", "default=\"true\",digest="), 1);
  EXPECT_FALSE(page.Has("chorale_model_skipped"));
  EXPECT_EQ(page.Value("chorale_ready"), 1);
  EXPECT_EQ(page.Value("chorale_draining"), 0);
  EXPECT_EQ(page.Value("chorale_pool_bytes", "pool=\"context\""), 1 << 20);
  EXPECT_EQ(page.Value("chorale_pool_bytes", "pool=\"buffer\""), 64 << 20);
  EXPECT_EQ(page.Value("chorale_pool_bytes", "pool=\"registration\""), 48 << 20);
  EXPECT_GT(page.Value("chorale_pool_bytes", "pool=\"kept_tables\""), 0);
  EXPECT_GT(page.Value("chorale_data_disk_free_bytes"), 0);
  EXPECT_EQ(page.Value("chorale_max_connections"), 4096);
  // That of the question whether it serves may not have ended yet.
  EXPECT_TRUE(Eventually([&] { return Page().Value("chorale_connections") == 0; }));
}

TEST_F(MetricsTest, CountsWhatHappened) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(client_->Register(absl::StrCat("secret-", i), RandomRows(kContextRows, 3, i)).ok());
  }
  constexpr int64_t kPaths = 20;
  constexpr int64_t kQueryRows = 7;
  for (int call = 0; call < 3; ++call) {
    ASSERT_TRUE(client_->Sample(MakeSample("secret-0", RandomRows(kQueryRows, 3, 5), kPaths, 1))
                    .complete());
  }
  ASSERT_TRUE(client_->Predict(MakePredict("secret-1", RandomRows(4, 3, 5))).ok());
  ASSERT_FALSE(client_->Predict(MakePredict("unknown", RandomRows(4, 3, 5))).ok());
  ASSERT_FALSE(client_->Sample(MakeSample("secret-0", RandomRows(4, 3, 5), 0, 1)).status.ok());

  // A call is counted at its end, which its client may see a little earlier.
  EXPECT_TRUE(Eventually([&] { return Page().Value("chorale_requests_total") == 8; }));
  const PrometheusPage page = Page();
  const auto calls = [&](const char* method, const char* code) {
    return page.Value("chorale_requests_total",
                      absl::StrCat("code=\"", code, "\",method=\"", method, "\""));
  };
  EXPECT_EQ(calls("RegisterContext", "OK"), 2);
  EXPECT_EQ(calls("Sample", "OK"), 3);
  EXPECT_EQ(calls("Sample", "INVALID_ARGUMENT"), 1);
  EXPECT_EQ(calls("Predict", "OK"), 1);
  EXPECT_EQ(calls("Predict", "NOT_FOUND"), 1);
  EXPECT_EQ(page.Value("chorale_request_duration_seconds_count", "method=\"Sample\""), 4);
  EXPECT_GE(page.Value("chorale_queue_seconds_count"), 4);
  EXPECT_EQ(page.Value("chorale_time_to_first_step_seconds_count"), 3);
  EXPECT_GT(page.Value("chorale_time_to_first_step_seconds_sum"), 0);
  EXPECT_EQ(page.Value("chorale_step_seconds_count"), 3 * kQueryRows);  // of one tile each
  EXPECT_GT(page.Value("chorale_step_seconds_sum"), 0);
  EXPECT_EQ(page.Value("chorale_values_total", "method=\"Sample\""), 3 * kPaths * kQueryRows);
  EXPECT_EQ(page.Value("chorale_values_total", "method=\"Predict\""), 4);
  EXPECT_EQ(page.Value("chorale_tenant_values_total", "tenant=\"default\""),
            3 * kPaths * kQueryRows + 4);
  EXPECT_EQ(page.Value("chorale_tenant_requests_total", "tenant=\"default\""), 8);
  EXPECT_GT(page.Value("chorale_tenant_engine_seconds_total"), 0);
  EXPECT_EQ(page.Value("chorale_encoded_rows_total"), 2 * kContextRows);
  for (const char* work : {"encode", "rows", "decode", "predict"}) {
    EXPECT_GT(page.Value("chorale_flops_total", absl::StrCat("work=\"", work, "\"")), 0) << work;
  }
  EXPECT_EQ(page.Value("chorale_flops_total", "work=\"density\""), 0);
  EXPECT_EQ(page.Value("chorale_summary_seconds_count"), 1);
  EXPECT_EQ(page.Value("chorale_registered_contexts"), 2);
  EXPECT_GT(page.Value("chorale_dataset_bytes"), 2 * kContextRows * 3 * sizeof(double));
  EXPECT_EQ(page.Value("chorale_connections"), 1);
  EXPECT_EQ(page.Value("chorale_inflight_requests"), 0);
  EXPECT_EQ(page.Value("chorale_tenant_inflight_requests"), 0);
  EXPECT_GT(page.Value("chorale_tick_seconds_count"), 0);
  // The second context took the place of the first.
  EXPECT_EQ(page.Value("chorale_encode_seconds_count"), 2);
  EXPECT_EQ(page.Value("chorale_evictions_total"), 1);
  EXPECT_EQ(page.Value("chorale_contexts", "state=\"resident\""), 1);
  const ModelShape tiny = {.d_model = 32, .n_heads = 4, .n_layers = 2};
  EXPECT_EQ(page.Value("chorale_pool_used_bytes", "pool=\"context\""),
            ContextBytes(tiny, kContextRows));
  EXPECT_EQ(page.Value("chorale_pool_used_bytes", "pool=\"buffer\""), 0);
  EXPECT_EQ(page.Value("chorale_pool_used_bytes", "pool=\"registration\""), 0)
      << "no table is on its way in";
  EXPECT_EQ(page.Value("chorale_sessions"), 0);
  // Names of contexts are private, and would make the number of series unbounded.
  EXPECT_FALSE(absl::StrContains(page.text(), "secret"));
}

TEST_F(MetricsTest, OtherPathsAreNotServed) {
  EXPECT_FALSE(PrometheusPage::Fetch(server_->metrics_address(), "/secret").ok());
  EXPECT_TRUE(Page().ok());
}

}  // namespace
}  // namespace chorale::end_to_end
