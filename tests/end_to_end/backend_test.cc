// What a user relies on, on whichever backend CHORALE_TEST_BACKEND names: small enough for a GPU
// that is emulated.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/eventually.h"

namespace chorale::end_to_end {
namespace {

constexpr int64_t kQueryRows = 5;
constexpr int64_t kPaths = 3;

class BackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Start();
    if (HasFatalFailure()) return;
    const auto registered = client_->Register("data", RandomRows(70, 3, 1));
    ASSERT_TRUE(registered.ok()) << registered.status.error_message();
  }

  void TearDown() override { Stop(); }

  // Servers of a test keep the same data.
  void Start() {
    server_ = ServerProcess::Start({.models = {GoldenFolder("golden_tiny")},
                                    .data_dir = data_.path(),
                                    .flags = {"--context_pool_mib=16", "--buffer_pool_mib=64"}});
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
  }

  void Stop() {
    client_.reset();
    if (server_ != nullptr) server_->Terminate();
    server_.reset();
  }

  static v1::SampleRequest Session(uint64_t seed, int64_t query_rows = kQueryRows) {
    v1::SampleRequest request = MakeSample("data", RandomRows(query_rows, 3, 2), kPaths, seed);
    request.set_include_log_densities(true);
    request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
    return request;
  }

  Samples Draw(const v1::SampleRequest& request) const {
    Samples samples = client_->Sample(request);
    EXPECT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;
    return samples;
  }

  bool BuffersInUse() const {
    return PrometheusPage::Fetch(server_->metrics_address())
               .Value("chorale_pool_used_bytes", "pool=\"buffer\"") > 0;
  }

  const TempFolder data_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(BackendTest, IsTheOneAskedFor) {
  server_->ExpectLog("backend_opened backend=\"" + TestBackend());
  EXPECT_TRUE(absl::StrContains(PrometheusPage::Fetch(server_->metrics_address()).text(),
                                "chorale_backend_info{backend=\"" + TestBackend()));
  v1::GetModelRequest request;
  request.set_name("models/golden_tiny");
  grpc::ClientContext context;
  v1::Model model;
  const grpc::Status status = client_->stub().GetModel(&context, request, &model);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(model.form(), TestBackend() == "cuda" ? "fused" : "");
}

TEST_F(BackendTest, ASeedGivesTheSameBitsAndAnotherSeedOthers) {
  const Samples first = Draw(Session(7));
  EXPECT_EQ(Difference(Draw(Session(7)), first), "");
  EXPECT_FALSE(SameBits(Draw(Session(8)), first));
}

TEST_F(BackendTest, DrawsHaveTheReportedLogDensity) {
  const Samples samples = Draw(Session(9));
  v1::LogDensityRequest request =
      MakeLogDensity("data", RandomRows(kQueryRows, 3, 2), samples.values);
  request.set_include_terms(true);
  const auto reply = client_->LogDensity(request);
  ASSERT_TRUE(reply.ok()) << reply.status.error_message();
  ASSERT_EQ(reply.value.terms_size(), kPaths * kQueryRows);
  for (int i = 0; i < reply.value.terms_size(); ++i) {
    EXPECT_NEAR(reply.value.terms(i), samples.log_densities[i], 1e-4) << i;
  }
}

TEST_F(BackendTest, TheFirstDrawFollowsThePrediction) {
  v1::PredictRequest request = MakePredict("data", RandomRows(1, 3, 2));
  request.set_include_mixtures(true);
  const auto reply = client_->Predict(request);
  ASSERT_TRUE(reply.ok()) << reply.status.error_message();
  const v1::Mixtures& m = reply.value.mixtures();
  const ExactMixture mixture = {.mean = {m.means().begin(), m.means().end()},
                                .std = {m.stds().begin(), m.stds().end()},
                                .weight = {m.weights().begin(), m.weights().end()}};
  const Samples samples = Draw(Session(11, /*query_rows=*/1));
  for (int path = 0; path < kPaths; ++path) {
    EXPECT_NEAR(mixture.LogDensity(samples.values[path]), samples.log_densities[path], 1e-4);
  }
}

TEST_F(BackendTest, ARestartChangesNothing) {
  const Samples before = Draw(Session(12));
  const std::string digest = client_->Get("data").value.digest();
  Stop();
  Start();
  ASSERT_NE(client_, nullptr);
  const auto context = client_->Get("data");
  ASSERT_TRUE(context.ok()) << context.status.error_message();
  EXPECT_EQ(context.value.digest(), digest);
  EXPECT_EQ(Difference(Draw(Session(12)), before), "");
}

TEST_F(BackendTest, CancellingStopsTheWorkAndFreesItsMemory) {
  const Samples before = Draw(Session(13));
  SampleStream stream(client_->stub(), Session(14, IsEmulated() ? 1'000 : 4'000));
  ASSERT_TRUE(stream.ReadOne());
  EXPECT_TRUE(BuffersInUse());
  stream.Cancel();
  EXPECT_EQ(stream.Finish().status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([this] { return !BuffersInUse(); }));
  EXPECT_EQ(Difference(Draw(Session(13)), before), "");
}

}  // namespace
}  // namespace chorale::end_to_end
