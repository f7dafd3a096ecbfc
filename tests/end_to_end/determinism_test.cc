// A result depends on model, context, request and seed alone: the same sessions give the same bits
// alone, among many, with any number of threads, with contexts that come and go, after a restart,
// and from contexts registered again.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/server_process.h"

namespace chorale::end_to_end {
namespace {

constexpr int kContexts = 4;
constexpr int kSessions = 32;
// 1,000 to 1,450 rows of golden_tiny take 0.5 to 0.75 MB of keys and values: a pool of 1 MiB holds
// one context at a time.
constexpr int64_t kFirstContextRows = 1000;

std::string ContextId(int i) { return absl::StrCat("context-", i); }

// Sessions of all kinds: 1 to 300 paths, 1 to 13 query rows, both orders, all rows of the context
// or local ones.
v1::SampleRequest Session(int i) {
  const int64_t paths[] = {1, 5, 64, 130, 300, 17, 33};
  const int64_t query_rows[] = {1, 3, 7, 13, 8};
  v1::SampleRequest request =
      MakeSample(ContextId(i % kContexts), RandomRows(query_rows[i % 5], 3, 100 + i), paths[i % 7],
                 /*seed=*/1 + i / 2);
  request.set_order(i % 3 == 0 ? v1::SampleRequest::ORDER_RANDOM_PER_PATH
                               : v1::SampleRequest::ORDER_GIVEN);
  request.set_include_log_densities(i % 2 == 0);
  if (i % 5 == 2) request.set_local_row_count(50 + i);
  request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  return request;
}

v1::PredictRequest Prediction(int i) {
  v1::PredictRequest request = MakePredict(ContextId(i % kContexts), RandomRows(40, 3, 200 + i));
  request.set_include_mixtures(true);
  request.add_quantiles(0.25);
  if (i % 2 == 1) request.set_local_row_count(100);
  return request;
}

v1::LogDensityRequest Density(int i) {
  const Rows rows = RandomRows(9, 3, 300 + i);
  std::vector<double> values;
  for (int copy = 0; copy < 4; ++copy) values.insert(values.end(), rows.y.begin(), rows.y.end());
  v1::LogDensityRequest request = MakeLogDensity(ContextId(i % kContexts), rows, values);
  request.set_include_terms(true);
  if (i % 3 == 1) request.set_local_row_count(100);
  request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  return request;
}

// The results of all sessions, predictions and densities on one server.
struct Results {
  std::vector<Samples> samples;
  std::vector<v1::PredictResponse> predictions;
  std::vector<v1::LogDensityResponse> densities;
};

Results RunAlone(const std::string& address) {
  const ApiClient client(address);
  Results results;
  for (int i = 0; i < kSessions; ++i) {
    results.samples.push_back(client.Sample(Session(i)));
    EXPECT_EQ(Difference(results.samples[i], results.samples[i]), "") << "session " << i;
  }
  for (int i = 0; i < kContexts; ++i) {
    const auto prediction = client.Predict(Prediction(i));
    EXPECT_TRUE(prediction.ok()) << prediction.status.error_message();
    results.predictions.push_back(prediction.value);
    const auto density = client.LogDensity(Density(i));
    EXPECT_TRUE(density.ok()) << density.status.error_message();
    results.densities.push_back(density.value);
  }
  return results;
}

// Predictions and densities in a loop until `stop`; every one is checked too.
void MakeNoise(const std::string& address, const Results& expected, std::atomic<bool>& stop,
               std::atomic<int>& calls) {
  const ApiClient client(address);
  for (int i = 0; !stop; i = (i + 1) % kContexts) {
    const auto prediction = client.Predict(Prediction(i));
    EXPECT_TRUE(prediction.ok()) << prediction.status.error_message();
    EXPECT_TRUE(SameBits(prediction.value, expected.predictions[i])) << "prediction " << i;
    const auto density = client.LogDensity(Density(i));
    EXPECT_TRUE(density.ok()) << density.status.error_message();
    ASSERT_EQ(density.value.terms_size(), expected.densities[i].terms_size());
    for (int k = 0; k < density.value.terms_size(); ++k) {
      ASSERT_EQ(density.value.terms(k), expected.densities[i].terms(k)) << "density " << i;
    }
    calls += 2;
  }
}

// All sessions at once, each with a connection of its own, while others make noise.
void ExpectSameBitsTogether(const std::string& address, const Results& expected) {
  std::atomic<bool> stop{false};
  std::atomic<int> noise_calls{0};
  std::vector<std::thread> noise;
  for (int i = 0; i < 2; ++i) {
    noise.emplace_back([&] { MakeNoise(address, expected, stop, noise_calls); });
  }
  std::vector<Samples> samples(kSessions);
  std::vector<std::thread> sessions;
  for (int i = 0; i < kSessions; ++i) {
    sessions.emplace_back([&, i] { samples[i] = ApiClient(address).Sample(Session(i)); });
  }
  for (std::thread& session : sessions) session.join();
  stop = true;
  for (std::thread& thread : noise) thread.join();
  for (int i = 0; i < kSessions; ++i) {
    EXPECT_EQ(Difference(samples[i], expected.samples[i]), "") << "session " << i;
  }
  EXPECT_GT(noise_calls, 0);
}

class DeterminismTest : public ::testing::Test {
 protected:
  // All servers of a test keep the same data.
  std::unique_ptr<ServerProcess> Start(std::vector<std::string> flags) const {
    return ServerProcess::Start(
        {.models = {GoldenFolder("golden_tiny")}, .data_dir = data_.path(), .flags = flags});
  }

  enum class Registration { kFirst, kAgain };
  void RegisterContexts(const ServerProcess& server, Registration registration) const {
    const ApiClient client(server.address());
    for (int i = 0; i < kContexts; ++i) {
      if (registration == Registration::kAgain) {
        const grpc::Status deleted = client.Delete(ContextId(i));
        ASSERT_TRUE(deleted.ok()) << deleted.error_message();
      }
      const auto reply =
          client.Register(ContextId(i), RandomRows(kFirstContextRows + 150 * i, 3, 50 + i));
      ASSERT_TRUE(reply.ok()) << reply.status.error_message();
    }
  }

  const TempFolder data_;
};

TEST_F(DeterminismTest, TheSameBitsUnderEveryCircumstance) {
  std::unique_ptr<ServerProcess> server = Start({"--threads=1"});
  ASSERT_NE(server, nullptr);
  RegisterContexts(*server, Registration::kFirst);
  const Results expected = RunAlone(server->address());
  if (HasFailure()) return;
  // The seeds do something: two sessions that differ in nothing else differ.
  v1::SampleRequest reseeded = Session(1);
  reseeded.set_seed(77);
  EXPECT_FALSE(SameBits(ApiClient(server->address()).Sample(reseeded), expected.samples[1]));
  {
    SCOPED_TRACE("together, one thread");
    ExpectSameBitsTogether(server->address(), expected);
  }
  server->Terminate();

  server = Start({"--threads=2"});
  ASSERT_NE(server, nullptr);
  {
    SCOPED_TRACE("after a restart, together, two threads");
    ExpectSameBitsTogether(server->address(), expected);
  }
  server->Terminate();

  server = Start({"--threads=2", "--context_pool_mib=1"});
  ASSERT_NE(server, nullptr);
  {
    SCOPED_TRACE("registered again, together, room for one context");
    RegisterContexts(*server, Registration::kAgain);
    ExpectSameBitsTogether(server->address(), expected);
  }
  const PrometheusPage page = PrometheusPage::Fetch(server->metrics_address());
  EXPECT_GE(page.Value("chorale_evictions_total"), kContexts - 1) << page.text();
  EXPECT_LE(page.Value("chorale_pool_used_bytes", "pool=\"context\""), 1 << 20);
  server->Terminate();
}

}  // namespace
}  // namespace chorale::end_to_end
