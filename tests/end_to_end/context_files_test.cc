// A server that is killed and started again serves its contexts from files, without encoding them.
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/expected_values.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/server_process.h"
#include "tests/golden/golden_table.h"

namespace chorale::end_to_end {
namespace {

constexpr int64_t kFeatures = 8;

v1::SampleRequest Question(const std::string& id) {
  return MakeSample(id, RandomRows(4, kFeatures, 7), /*paths=*/8, /*seed=*/3);
}

class ContextFilesTest : public ::testing::Test {
 protected:
  std::unique_ptr<ServerProcess> Start(const std::string& warm = "") const {
    return ServerProcess::Start({.models = {DefaultModelFolder()},
                                 .data_dir = data_.path(),
                                 .flags = {"--context_files_mib=512", "--context_pool_mib=128",
                                           "--warm_on_start=" + warm}});
  }
  int64_t Files() const {
    int64_t count = 0;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(data_.path() + "/kv", none)) {
      count += entry.path().extension() == ".kv" ? 1 : 0;
    }
    return count;
  }
  static PrometheusPage PageOf(const ServerProcess& server) {
    return PrometheusPage::Fetch(server.metrics_address());
  }

  const TempFolder data_;
};

TEST_F(ContextFilesTest, AKilledServerReadsWhatItHasEncoded) {
  const int64_t rows = kSanitized || IsEmulated() ? 300 : 4000;
  auto server = Start();
  ASSERT_NE(server, nullptr);
  Samples expected;
  {
    const ApiClient client(server->address());
    for (const char* id : {"a", "b"}) {
      ASSERT_TRUE(client.Register(id, RandomRows(rows, kFeatures, id[0])).ok());
    }
    const absl::Time start = absl::Now();
    expected = client.Sample(Question("a"));
    std::printf("  %ld rows, first sample: %.2f s with their encoding, ", static_cast<long>(rows),
                absl::ToDoubleSeconds(absl::Now() - start));
    ASSERT_TRUE(client.Warm("b").ok());
  }
  ASSERT_TRUE(Eventually([&] { return Files() == 2; }));
  server->Kill();

  server = Start();
  ASSERT_NE(server, nullptr);
  {
    const ApiClient client(server->address());
    const absl::Time start = absl::Now();
    const Samples again = client.Sample(Question("a"));
    std::printf("%.2f s from its file\n", absl::ToDoubleSeconds(absl::Now() - start));
    EXPECT_TRUE(SameBits(again, expected)) << Difference(again, expected);
    const PrometheusPage page = PageOf(*server);
    EXPECT_EQ(page.Value("chorale_encode_seconds_count"), 0);
    EXPECT_EQ(page.Value("chorale_restore_seconds_count"), 1);
    EXPECT_EQ(page.Value("chorale_context_lookups_total", "result=\"disk_hit\""), 1);
    EXPECT_EQ(page.Value("chorale_contexts", "state=\"resident\""), 1);
    // Deleted: its file goes, and a successor of the same content is encoded.
    ASSERT_TRUE(client.Delete("b").ok());
    EXPECT_EQ(Files(), 1);
    ASSERT_TRUE(client.Register("b", RandomRows(rows, kFeatures, 'b')).ok());
    ASSERT_TRUE(client.Warm("b").ok());
    EXPECT_EQ(PageOf(*server).Value("chorale_encode_seconds_count"), 1);
  }
  server->Terminate();
}

TEST_F(ContextFilesTest, ContextsAreResidentBeforeTheServerIsReady) {
  auto server = Start();
  ASSERT_NE(server, nullptr);
  {
    const ApiClient client(server->address());
    for (const char* id : {"a", "b", "c"}) {
      ASSERT_TRUE(client.Register(id, RandomRows(200, kFeatures, id[0])).ok());
    }
  }
  server->Kill();
  server = Start("a,missing,default/c");
  ASSERT_NE(server, nullptr);
  PrometheusPage page = PageOf(*server);
  EXPECT_EQ(page.Value("chorale_contexts", "state=\"resident\""), 2);
  EXPECT_EQ(page.Value("chorale_encode_seconds_count"), 2);
  server->ExpectLog("warm_failed");
  server->ExpectLog("missing");
  ASSERT_TRUE(Eventually([&] { return Files() == 2; }));
  server->Kill();
  server = Start("*");
  ASSERT_NE(server, nullptr);
  page = PageOf(*server);
  EXPECT_EQ(page.Value("chorale_contexts", "state=\"resident\""), 3);
  EXPECT_EQ(page.Value("chorale_encode_seconds_count"), 1);
  EXPECT_EQ(page.Value("chorale_restore_seconds_count"), 2);
  server->Terminate();
}

}  // namespace
}  // namespace chorale::end_to_end
