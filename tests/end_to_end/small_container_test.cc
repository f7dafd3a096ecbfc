// A server in a small container: it makes room for tables instead of being killed.
#include <string>

#include "absl/strings/str_cat.h"
#include "base/sanitized.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/rows.h"
#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/test_cgroup.h"
#include "tests/golden/golden_table.h"
#include "tests/support/length.h"

namespace chorale::end_to_end {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;
// Keys and values of a table of so many rows take 24 MB.
constexpr int64_t kRows = 2000;

// Registers so many tables and draws from each.
void UseTables(const ServerProcess& server, int tables, int64_t rows = kRows) {
  const ApiClient client(server.address());
  const Rows query_rows = RandomRows(4, 3, 1);
  for (int i = 0; i < tables; ++i) {
    const std::string name = absl::StrCat("table-", i);
    const auto registered = client.Register(name, RandomRows(rows, 3, 10 + i));
    ASSERT_TRUE(registered.ok()) << name << ": " << registered.status.error_message();
    const Samples samples = client.Sample(MakeSample(name, query_rows, /*paths=*/8, /*seed=*/1));
    ASSERT_TRUE(samples.complete()) << name << ": " << samples.status.error_message();
  }
  // The first one has made room, and comes back.
  EXPECT_TRUE(client.Sample(MakeSample("table-0", query_rows, 8, 1)).complete());
}

class SmallContainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitized process needs more memory";
    if (TestBackend() != "cpu") GTEST_SKIP() << "contexts lie on a GPU";
  }
};

TEST_F(SmallContainerTest, ThousandTablesAreServedIn300Mebibytes) {
  const auto cgroup = TestCgroup::Make(300 * kMiB, /*processors=*/0);
  if (!cgroup.ok()) GTEST_SKIP() << cgroup.status().message();
  const auto server =
      ServerProcess::Start({.models = {DefaultModelFolder()}, .cgroups = (*cgroup)->folders()});
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(server->log(), HasSubstr("machine memory_mib=300 memory_from="));
  // A thousand of the larger ones take as long as many other tests together.
  UseTables(*server, FullLength() ? 1000 : 20, FullLength() ? kRows / 4 : kRows);
  EXPECT_GT(PrometheusPage::Fetch(server->metrics_address()).Value("chorale_evictions_total"), 0);
  server->Terminate();
}

// As by docker update, or a pod that is resized in place.
TEST_F(SmallContainerTest, OneThatShrinksKeepsServing) {
  const auto cgroup = TestCgroup::Make(2000 * kMiB, /*processors=*/0);
  if (!cgroup.ok()) GTEST_SKIP() << cgroup.status().message();
  const auto server =
      ServerProcess::Start({.models = {DefaultModelFolder()}, .cgroups = (*cgroup)->folders()});
  ASSERT_NE(server, nullptr);
  UseTables(*server, 6);
  ASSERT_TRUE((*cgroup)->SetMemory(350 * kMiB));
  server->ExpectLog("memory_limit_changed memory_limit_mib=350");
  UseTables(*server, 20);
  const PrometheusPage page = PrometheusPage::Fetch(server->metrics_address());
  EXPECT_EQ(page.Value("chorale_memory_limit_bytes"), 350 * kMiB);
  EXPECT_LT(page.Value("chorale_pool_bytes", "pool=\"context\""), 200 * kMiB);
  const auto too_large =
      ApiClient(server->address()).Register("too-large", RandomRows(10 * kRows, 3, 1));
  EXPECT_EQ(too_large.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(too_large.status.error_message(), HasSubstr("bytes of the context pool"));
  ASSERT_TRUE((*cgroup)->SetMemory(2000 * kMiB));
  server->ExpectLog("memory_limit_changed memory_limit_mib=2000");
  server->Terminate();
}

TEST_F(SmallContainerTest, HalfAProcessorServes) {
  const auto cgroup = TestCgroup::Make(300 * kMiB, /*processors=*/0.5);
  if (!cgroup.ok()) GTEST_SKIP() << cgroup.status().message();
  const auto server =
      ServerProcess::Start({.models = {DefaultModelFolder()}, .cgroups = (*cgroup)->folders()});
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(server->log(), AllOf(HasSubstr("processors=0.5"), HasSubstr("threads=1 ")));
  UseTables(*server, FullLength() ? 20 : 2);
  server->Terminate();
}

TEST_F(SmallContainerTest, OneThatIsTooSmallIsRefusedWithWhatIsNeeded) {
  const auto cgroup = TestCgroup::Make(100 * kMiB, /*processors=*/0);
  if (!cgroup.ok()) GTEST_SKIP() << cgroup.status().message();
  const auto server =
      ServerProcess::Spawn({.models = {DefaultModelFolder()}, .cgroups = (*cgroup)->folders()});
  EXPECT_EQ(server->ExitCode(), 2);
  EXPECT_THAT(server->log(), ContainsRegex("may use (100|9[0-9]) MiB of memory"));
  EXPECT_THAT(server->log(), HasSubstr("but needs about"));
}

}  // namespace
}  // namespace chorale::end_to_end
