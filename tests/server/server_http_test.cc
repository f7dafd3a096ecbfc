// The HTTP endpoint of the server: metrics and probes.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/server.h"
#include "tests/server/server_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/http_get.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ServerHttpTest : public ServerFixture {
 protected:
  ServerHttpTest() { options_.metrics_address = "127.0.0.1:0"; }
  std::string Get(const std::string& path) { return HttpGet(server_->metrics_port(), path); }
};

TEST_F(ServerHttpTest, MetricsAreServedFromTheStart) {
  StartServer();
  const std::string page = Get("/metrics");
  EXPECT_THAT(page, HasSubstr("200 OK"));
  EXPECT_THAT(page, HasSubstr("chorale_requests_total{code=\"OK\",method=\"Sample\"} 0"));
  EXPECT_THAT(page, HasSubstr("chorale_ready 0"));
  EXPECT_THAT(Get("/other"), HasSubstr("404"));
  EXPECT_THAT(Get("/"), HasSubstr("/metrics"));
}

// A name may have an IPv4 and an IPv6 address; the latter comes first.
TEST_F(ServerHttpTest, EveryAddressOfANameIsServed) {
  options_.metrics_address = "localhost:0";
  StartServer();
  EXPECT_THAT(Get("/healthz"), HasSubstr("200 OK"));
}

TEST_F(ServerHttpTest, ProbesFollowTheLifeCycle) {
  StartServer();
  EXPECT_THAT(Get("/healthz"), HasSubstr("200 OK"));
  EXPECT_THAT(Get("/readyz"), HasSubstr("503"));
  OpenServer();
  EXPECT_THAT(Get("/readyz"), HasSubstr("200 OK"));
  EXPECT_THAT(Get("/metrics"), HasSubstr("chorale_ready 1\n"));
  server_->Drain(clock_.Now());
  EXPECT_THAT(Get("/healthz"), HasSubstr("200 OK"));
  EXPECT_THAT(Get("/readyz"), HasSubstr("503"));
  EXPECT_THAT(Get("/metrics"), HasSubstr("chorale_draining 1\n"));
}

TEST_F(ServerHttpTest, FollowsTheLimitOfMemory) {
  std::atomic<int> asked{0};
  options_.find_memory_shares = [&](bool on_host, int64_t) -> std::optional<MemoryShares> {
    EXPECT_TRUE(on_host);
    if (asked++ > 0) return std::nullopt;
    MemoryShares shares;
    shares.limit_bytes = int64_t{1} << 40;
    shares.pools.context = 77;
    shares.registration_memory_bytes = 1;
    return shares;
  };
  StartServer();
  OpenServer();
  EXPECT_TRUE(Eventually([&] { return asked > 0 && engine_->pool_limits().context == 77; }));
  EXPECT_TRUE(Eventually([&] {
    return absl::StrContains(Get("/metrics"), "chorale_memory_limit_bytes 1099511627776");
  }));
}

TEST_F(ServerHttpTest, TheMetricsNameTheModelsThatAreSkipped) {
  engine_->models = {{"m", {}, "m's digest"}};
  StartServer();
  OpenServer();
  const auto page = [&] { return Get("/metrics"); };
  const auto update = [&](const std::vector<std::string>& names) {
    std::vector<Model> models(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      models[i].name = names[i];
      models[i].digest = absl::StrCat(names[i], "'s digest");
    }
    return server_->UpdateModels(models);
  };
  EXPECT_THAT(page(), Not(HasSubstr("chorale_model_skipped")));
  // At the start.
  engine_->SetSkippedModels({{"wide", "Install the library."}, {"other", "Install it."}});
  EXPECT_THAT(page(), HasSubstr("chorale_model_skipped{model=\"wide\"} 1\n"));
  EXPECT_THAT(page(), HasSubstr("chorale_model_skipped{model=\"other\"} 1\n"));
  // At a reload; one that is refused changes nothing.
  EXPECT_TRUE(update({"wide", "m"}).ok());
  EXPECT_FALSE(update({"m", "too-large"}).ok());
  EXPECT_THAT(page(), HasSubstr("chorale_model_skipped{model=\"wide\"} 1\n"));
  EXPECT_THAT(page(), Not(HasSubstr("model=\"other\"")));
  engine_->has_library = true;
  EXPECT_TRUE(update({"wide", "m"}).ok());
  EXPECT_THAT(page(), HasSubstr("digest=\"wide's digest\",model=\"wide\"} 1\n"));
  EXPECT_THAT(page(), Not(HasSubstr("chorale_model_skipped")));
}

// A disk that stalls holds up one scrape, not all threads of the endpoint, among them the one that
// says that the process should live.
TEST_F(ServerHttpTest, AScrapeThatWaitsForTheDiskHoldsUpNoOther) {
  std::atomic<int> asked{0};
  Notification disk_is_back;
  engine_->on_registered = [&] {
    if (++asked == 2) disk_is_back.Wait();
    return StoreTotals{3, 4000, 5000};
  };
  StartServer();
  OpenServer();
  EXPECT_THAT(Get("/metrics"), HasSubstr("dataset_bytes 4000\n"));
  std::thread stalled([this] { Get("/metrics"); });
  EXPECT_TRUE(Eventually([&] { return asked == 2; }));
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(Get("/metrics"), HasSubstr("dataset_bytes 4000\n"));
  }
  EXPECT_THAT(Get("/healthz"), HasSubstr("200"));
  EXPECT_EQ(asked, 2);
  disk_is_back.Notify();
  stalled.join();
}

TEST_F(ServerHttpTest, AFailedBackendIsNeitherReadyNorAlive) {
  options_.health_period = absl::Milliseconds(1);
  StartServer();
  OpenServer();
  engine_->Fail();
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(Get("/healthz"), "503"); }));
  EXPECT_THAT(Get("/readyz"), HasSubstr("503"));
}

TEST_F(ServerHttpTest, CallsAreCountedByMethodAndCode) {
  engine_->on_predict = [](const PredictRequest&) { return PredictResult(); };
  StartServer();
  OpenServer();
  v1::PredictResponse response;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(stub_->Predict(NewContext().get(), PredictMessage(), &response).ok());
  }
  EXPECT_FALSE(stub_->Predict(NewContext().get(), {}, &response).ok());
  auto context = NewContext();
  auto reader = stub_->Sample(context.get(), SampleMessage());
  ASSERT_NE(engine_->NextSample(), nullptr);
  EXPECT_THAT(Get("/metrics"), HasSubstr("chorale_streams_live 1\n"));
  context->TryCancel();
  EXPECT_FALSE(reader->Finish().ok());
  EXPECT_TRUE(Eventually([&] { return server_->live_calls() == 0; }));
  const std::string page = Get("/metrics");
  for (const char* line :
       {"chorale_requests_total{code=\"OK\",method=\"Predict\"} 3",
        "chorale_requests_total{code=\"INVALID_ARGUMENT\",method=\"Predict\"} 1",
        "chorale_requests_total{code=\"CANCELLED\",method=\"Sample\"} 1", "chorale_streams_live 0",
        "chorale_request_duration_seconds_count{method=\"Predict\"} 4",
        "chorale_inflight_requests{method=\"Sample\"} 0",
        "chorale_tenant_requests_total{method=\"Predict\",tenant=\"default\"} 4",
        "chorale_backend_info{backend=\"cpu\",device=\"fake\",threads=\"2\"} 1"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

}  // namespace
}  // namespace chorale
