// A server in which places fail at random: each answer is right, or an error that may be retried.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/length.h"

namespace chorale::end_to_end {
namespace {

constexpr int kContexts = 4;
constexpr int kClients = 4;
constexpr int kKinds = 4;

std::string ContextId(int i) { return absl::StrCat("context-", i); }

v1::SampleRequest SampleOf(int context) {
  return MakeSample(ContextId(context), RandomRows(4, 3, 7), /*paths=*/20, /*seed=*/3);
}
v1::LogDensityRequest DensityOf(int context) {
  const Rows rows = RandomRows(4, 3, 7);
  return MakeLogDensity(ContextId(context), rows, rows.y);
}

bool MayBeRetried(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ||
         status.error_code() == grpc::StatusCode::INTERNAL;
}

// What a server without faults answers to the requests for a context.
struct Answers {
  Samples samples;
  v1::LogDensityResponse density;
  v1::PredictResponse prediction;
};

class FaultsTest : public ::testing::Test {
 protected:
  static std::unique_ptr<ServerProcess> Start(const std::string& faults) {
    ServerOptions options = {
        .models = {GoldenFolder("golden_tiny")},
        .flags = {"--context_pool_mib=1", "--context_files_mib=16", "--queue_wait=20s"}};
    if (!faults.empty()) options.environment = {"CHORALE_FAULTS=" + faults};
    return ServerProcess::Start(options);
  }

  static void Register(const ApiClient& client) {
    for (int i = 0; i < kContexts; ++i) {
      grpc::Status status;
      EXPECT_TRUE(Eventually([&] {
        status = client.Register(ContextId(i), RandomRows(1500, 3, 50 + i)).status;
        return status.ok() || !MayBeRetried(status);
      }));
      EXPECT_TRUE(status.ok()) << status.error_message();
    }
  }

  // Sends one request, and returns its outcome.
  grpc::Status Ask(const ApiClient& client, int kind, int context) const {
    const Answers& expected = expected_[context];
    if (kind == 0) {
      const Samples samples = client.Sample(SampleOf(context));
      EXPECT_EQ(samples.status.ok() ? Difference(samples, expected.samples) : "", "");
      return samples.status;
    }
    if (kind == 1) {
      const auto density = client.LogDensity(DensityOf(context));
      EXPECT_TRUE(!density.ok() ||
                  absl::c_equal(density.value.log_densities(), expected.density.log_densities()));
      return density.status;
    }
    if (kind == 2) {
      const auto prediction = client.Predict(MakePredict(ContextId(context), RandomRows(4, 3, 7)));
      EXPECT_TRUE(!prediction.ok() || SameBits(prediction.value, expected.prediction));
      return prediction.status;
    }
    return client.Warm(ContextId(context)).status;
  }

  std::vector<Answers> expected_ = std::vector<Answers>(kContexts);
};

TEST_F(FaultsTest, AnswersAreRightOrErrorsThatMayBeRetried) {
  {
    const auto calm = Start("");
    ASSERT_NE(calm, nullptr);
    const ApiClient client(calm->address());
    Register(client);
    for (int i = 0; i < kContexts; ++i) {
      expected_[i].samples = client.Sample(SampleOf(i));
      ASSERT_TRUE(expected_[i].samples.complete());
      const auto density = client.LogDensity(DensityOf(i));
      const auto prediction = client.Predict(MakePredict(ContextId(i), RandomRows(4, 3, 7)));
      ASSERT_TRUE(density.ok() && prediction.ok());
      expected_[i].density = density.value;
      expected_[i].prediction = prediction.value;
    }
  }
  const auto server = Start(
      "buffer_pool=0.2,context_pool=0.2,host_context_pool=0.2,encode_pool=0.2,context_load=0.1,"
      "context_file_read=0.3,context_file_write=0.3,device=0.05:2ms,accept=0.2,reply_memory=0.1");
  ASSERT_NE(server, nullptr);
  Register(ApiClient(server->address()));
  std::atomic<int> answered = 0;
  std::atomic<int> failed = 0;
  std::vector<std::thread> clients;
  const int calls = FullLength() ? 200 : 25;
  for (int number = 0; number < kClients; ++number) {
    clients.emplace_back([&, number] {
      for (int i = 0; i < calls; ++i) {
        const ApiClient client(server->address());  // a new connection
        const int choice = number + kClients * i;
        const grpc::Status status = Ask(client, choice % kKinds, choice / kKinds % kContexts);
        EXPECT_TRUE(status.ok() || MayBeRetried(status))
            << status.error_code() << ": " << status.error_message();
        ++(status.ok() ? answered : failed);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(answered, kClients * calls / 4);
  EXPECT_GT(failed, 0);
  EXPECT_TRUE(Eventually([&] {
    return PrometheusPage::Fetch(server->metrics_address())
               .Value("chorale_pool_used_bytes", "pool=\"buffer\"") == 0;
  }));
  EXPECT_TRUE(Eventually([&] { return Health(server->address()) == "SERVING"; }));
  server->Terminate();
}

}  // namespace
}  // namespace chorale::end_to_end
