// Bit-identical under load: a hundred calls of all kinds and sizes, each alone first, then all of
// them together in another order, on eight contexts by 64 clients.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/server_process.h"

namespace chorale::end_to_end {
namespace {

// What fits the time that an emulated GPU takes is less.
struct Load {
  int contexts = 8;
  int calls = 100;
  int clients = 64;
  int64_t most_context_rows = 1'500;
  int64_t most_paths = 300;
  int64_t most_targets = 40;
};

Load TestLoad() {
  if (!IsEmulated()) return {};
  return {.contexts = 3,
          .calls = 24,
          .clients = 12,
          .most_context_rows = 90,
          .most_paths = 12,
          .most_targets = 4};
}

template <typename Values>
std::string Bytes(const Values& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(values[0]));
}

// All calls of the test, by number.
class Calls {
 public:
  explicit Calls(const Load& load) : load_(load) {}

  void RegisterContexts(const ApiClient& client) const {
    for (int i = 0; i < load_.contexts; ++i) {
      const int64_t rows = 1 + (load_.most_context_rows - 1) * i / (load_.contexts - 1);
      const auto reply = client.Register(ContextId(i), RandomRows(rows, 3, 50 + i));
      ASSERT_TRUE(reply.ok()) << reply.status.error_message();
    }
  }

  // What call `i` answers, as bytes. Empty, with a failure added, when it fails.
  std::string Make(const ApiClient& client, int i) const {
    std::mt19937_64 random(i);
    const std::string context = ContextId(static_cast<int>(random() % load_.contexts));
    const auto upto = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
    const Rows rows = RandomRows(upto(load_.most_targets), 3, 100 + i);
    switch (i % 6) {
      case 4:
        return Predict(client, context, rows);
      case 5:
        return LogDensity(client, context, rows, upto(4), i % 4 == 1 ? 3 : 0);
      default:
        break;
    }
    v1::SampleRequest request = MakeSample(context, rows, upto(load_.most_paths), 1 + i / 2);
    request.set_order(i % 3 == 0 ? v1::SampleRequest::ORDER_RANDOM_PER_PATH
                                 : v1::SampleRequest::ORDER_GIVEN);
    request.set_include_log_densities(i % 2 == 0);
    request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
    const Samples samples = client.Sample(request);
    EXPECT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;
    return Bytes(samples.values) + Bytes(samples.log_densities) + Bytes(samples.order);
  }

 private:
  static std::string ContextId(int i) { return absl::StrCat("context-", i); }

  static std::string Predict(const ApiClient& client, const std::string& context,
                             const Rows& rows) {
    v1::PredictRequest request = MakePredict(context, rows);
    request.set_include_mixtures(true);
    request.add_quantiles(0.25);
    auto reply = client.Predict(request);
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    reply.value.clear_timings();
    return reply.value.SerializeAsString();
  }

  static std::string LogDensity(const ApiClient& client, const std::string& context,
                                const Rows& rows, int64_t paths, int32_t orders) {
    std::vector<double> values;
    for (int64_t path = 0; path < paths; ++path) {
      values.insert(values.end(), rows.y.begin(), rows.y.end());
    }
    v1::LogDensityRequest request = MakeLogDensity(context, rows, values);
    request.set_include_terms(orders == 0);
    request.set_random_order_count(orders);
    request.set_seed(3);
    request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
    auto reply = client.LogDensity(request);
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    reply.value.clear_timings();
    return reply.value.SerializeAsString();
  }

  const Load load_;
};

TEST(LoadTest, TheSameBytesAloneAndUnderLoad) {
  const Load load = TestLoad();
  const Calls calls(load);
  const auto server =
      ServerProcess::Start({.models = {GoldenFolder("golden_tiny")},
                            .flags = {"--context_pool_mib=64", "--buffer_pool_mib=128"}});
  ASSERT_NE(server, nullptr);
  std::vector<std::string> expected(load.calls);
  {
    const ApiClient client(server->address());
    calls.RegisterContexts(client);
    for (int i = 0; i < load.calls; ++i) expected[i] = calls.Make(client, i);
  }
  if (::testing::Test::HasFailure()) return;

  std::vector<int> order(load.calls);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(42));
  std::vector<std::string> together(load.calls);
  std::atomic<int> next{0};
  std::vector<std::thread> clients;
  for (int thread = 0; thread < load.clients; ++thread) {
    clients.emplace_back([&] {
      const ApiClient client(server->address());
      for (int taken = next++; taken < load.calls; taken = next++) {
        together[order[taken]] = calls.Make(client, order[taken]);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < load.calls; ++i) {
    EXPECT_TRUE(together[i] == expected[i]) << "call " << i << " answers otherwise under load";
  }
  server->Terminate();
}

}  // namespace
}  // namespace chorale::end_to_end
