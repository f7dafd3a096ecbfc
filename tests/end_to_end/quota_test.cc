// Quotas of tenants in the shipped binary: what is refused, in which words, and when to come back.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "tests/end_to_end/secure_server.h"
#include "tests/support/eventually.h"

namespace chorale::end_to_end {
namespace {

using ::testing::HasSubstr;

using Code = grpc::StatusCode;

class QuotaTest : public SecureServerTest {
 protected:
  // A server on which acme has these quotas, and zeta none.
  void StartWith(const std::string& quotas, const std::vector<std::string>& flags = {}) {
    Replace("tenants", absl::StrCat("tenants: {acme: {", quotas, "}}\n"));
    Start(flags);
  }
  void ExpectRefused(const grpc::Status& status, const std::string& quota,
                     const std::string& text) {
    EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(), HasSubstr(text));
    EXPECT_GT(
        Page().Value("chorale_tenant_quota_refusals_total", absl::StrCat("quota=\"", quota, "\"")),
        0)
        << Page().text();
  }
};

TEST_F(QuotaTest, Contexts) {
  StartWith("max_contexts: 2");
  const ApiClient acme = Client("acme");
  const Rows rows = RandomRows(50, 3, 1);
  EXPECT_TRUE(acme.Register("a", rows).ok());
  EXPECT_TRUE(acme.Register("b", rows).ok());
  const grpc::Status refused = acme.Register("c", rows).status;
  ExpectRefused(refused, "max_contexts", "the tenant has 2 contexts; its quota is 2");
  EXPECT_FALSE(DetailsOf(refused).has_retry_delay) << "waiting does not help";
  EXPECT_TRUE(acme.Register("b", rows).ok()) << "it is registered already";
  EXPECT_TRUE(Client("zeta").Register("c", rows).ok());
  EXPECT_TRUE(acme.Delete("a").ok());
  EXPECT_TRUE(acme.Register("c", rows).ok());
  for (const auto& [tenant, quota] : {std::pair("acme", 2), std::pair("zeta", 0)}) {
    grpc::ClientContext context;
    v1::ServerInfo info;
    EXPECT_TRUE(Client(tenant).stub().GetServerInfo(&context, {}, &info).ok());
    EXPECT_EQ(info.quotas().max_contexts(), quota) << tenant;
    EXPECT_THAT(info.features(), ::testing::Contains(v1::ServerInfo::FEATURE_AUTHENTICATION));
  }
}

TEST_F(QuotaTest, ContextsHoldUnderConcurrency) {
  StartWith("max_contexts: 5");
  std::atomic<int> accepted{0};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const ApiClient acme = Client("acme");
      for (int j = 0; j < 5; ++j) {
        const bool ok = acme.Register(absl::StrCat("c", i, "-", j), RandomRows(20, 2, i)).ok();
        accepted += ok ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(accepted, 5);
  EXPECT_EQ(Client("acme").List().value.size(), 5);
}

TEST_F(QuotaTest, DatasetBytes) {
  StartWith("max_dataset_mib: 1");
  const ApiClient acme = Client("acme");
  const Rows rows = RandomRows(20'000, 3, 1);  // of 0.6 MiB
  EXPECT_TRUE(acme.Register("a", rows).ok());
  EXPECT_TRUE(acme.Register("b", rows).ok()) << "the same content takes nothing more";
  const grpc::Status refused = acme.Register("c", RandomRows(20'000, 3, 2)).status;
  ExpectRefused(refused, "max_dataset_mib", "the tenant's quota is 1048576");
  EXPECT_TRUE(acme.Register("d", RandomRows(100, 3, 2)).ok());
  EXPECT_TRUE(Client("zeta").Register("c", RandomRows(20'000, 3, 2)).ok());
}

TEST_F(QuotaTest, ResidentBytes) {
  StartWith("max_resident_mib: 1");
  const ApiClient acme = Client("acme");
  const ApiClient zeta = Client("zeta");
  for (const ApiClient* client : {&acme, &zeta}) {
    for (const char* name : {"a", "b"}) {  // of 0.6 MB each
      ASSERT_TRUE(client->Register(name, RandomRows(1200, 3, 1)).ok());
      EXPECT_TRUE(client->Warm(name).ok());
    }
  }
  // acme's second made room by its first; zeta's have room.
  EXPECT_EQ(acme.Get("a").value.state(), v1::Context::STATE_NOT_RESIDENT);
  EXPECT_EQ(acme.Get("b").value.state(), v1::Context::STATE_RESIDENT);
  EXPECT_EQ(zeta.Get("a").value.state(), v1::Context::STATE_RESIDENT);
  EXPECT_EQ(zeta.Get("b").value.state(), v1::Context::STATE_RESIDENT);
  EXPECT_TRUE(acme.Predict(MakePredict("a", RandomRows(2, 3, 2))).ok());
  ASSERT_TRUE(acme.Register("large", RandomRows(4000, 3, 1)).ok());
  ExpectRefused(acme.Warm("large").status, "max_resident_mib", "the tenant's quota is 1048576");
}

TEST_F(QuotaTest, CallsAtATime) {
  StartWith("max_concurrent_calls: 2", {"--retry_delay=3s"});
  const ApiClient acme = Client("acme", ReceiveWindow::kSmall);
  ASSERT_TRUE(acme.Register("data", RandomRows(50, 3, 1)).ok());
  v1::SampleRequest request = MakeSample("data", RandomRows(100, 3, 2), 4000, 1);
  request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  {
    // Nobody reads them, so they stay.
    SampleStream first(acme.stub(), request);
    SampleStream second(acme.stub(), request);
    EXPECT_TRUE(first.ReadOne());
    EXPECT_TRUE(second.ReadOne());
    const grpc::Status refused = ListModels(Client("acme-reader"));
    ExpectRefused(refused, "max_concurrent_calls", "the tenant's quota is 2 concurrent calls");
    EXPECT_EQ(DetailsOf(refused).retry_delay, absl::Seconds(3));
    EXPECT_TRUE(ListModels(Client("zeta")).ok());
    first.Cancel();
    second.Cancel();
  }
  EXPECT_TRUE(Eventually([&] { return ListModels(acme).ok(); }));
  // One after the other is one at a time: each answer gives its place back before it is seen.
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(ListModels(acme).ok());
}

// After exactly the time that the refusal names, the same request is accepted.
TEST_F(QuotaTest, ValuesPerSecond) {
  StartWith("max_values_per_second: 1000");
  const ApiClient acme = Client("acme");
  ASSERT_TRUE(acme.Register("data", RandomRows(50, 3, 1)).ok());
  // Values of 4 s: also a busy machine asks again within that time.
  const v1::SampleRequest request = MakeSample("data", RandomRows(5, 3, 2), 800, 1);
  EXPECT_TRUE(acme.Sample(request).complete());
  const Samples refused = acme.Sample(request);
  ASSERT_FALSE(refused.status.ok());
  const absl::Duration delay = DetailsOf(refused.status).retry_delay;
  EXPECT_GT(delay, absl::ZeroDuration());
  EXPECT_LE(delay, absl::Seconds(4));
  absl::SleepFor(delay);
  EXPECT_TRUE(acme.Sample(request).complete());
  ExpectRefused(refused.status, "max_values_per_second", "1000 values per second");
  EXPECT_TRUE(acme.Get("data").ok()) << "asks for no values";
}

TEST_F(QuotaTest, WhatIsRefusedCostsNothing) {
  StartWith("max_values_per_second: 1000");
  const ApiClient acme = Client("acme");
  ASSERT_TRUE(acme.Register("data", RandomRows(50, 3, 1)).ok());
  const Rows query_rows = RandomRows(5, 3, 2);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(acme.Sample(MakeSample("nothing", query_rows, 200, 1)).status.error_code(),
              Code::NOT_FOUND);
  }
  EXPECT_TRUE(acme.Sample(MakeSample("data", query_rows, 200, 1)).complete());
}

TEST_F(QuotaTest, WhatIsOnlyValidatedCostsNothing) {
  StartWith("max_values_per_second: 1000");
  const ApiClient acme = Client("acme");
  ASSERT_TRUE(acme.Register("data", RandomRows(50, 3, 1)).ok());
  v1::SampleRequest request = MakeSample("data", RandomRows(5, 3, 2), 800, 1);
  request.set_validate_only(true);
  for (int i = 0; i < 5; ++i) {
    const Samples validated = acme.Sample(request);
    ASSERT_TRUE(validated.status.ok()) << validated.status.error_message();
    EXPECT_GT(validated.summary.estimate().device_bytes(), 0);
  }
  request.set_validate_only(false);
  EXPECT_TRUE(acme.Sample(request).complete());
}

// A tenant could otherwise draw without end by not reading the ends of its streams.
TEST_F(QuotaTest, WhatWasDrawnIsPaidForAlsoIfNobodyReadsIt) {
  StartWith("max_values_per_second: 1000", {"--unread_timeout=1s"});
  const ApiClient acme = Client("acme", ReceiveWindow::kSmall);
  ASSERT_TRUE(acme.Register("data", RandomRows(50, 3, 1)).ok());
  v1::SampleRequest request = MakeSample("data", RandomRows(100, 3, 2), 4000, 1);
  request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  SampleStream unread(acme.stub(), request);
  EXPECT_TRUE(unread.ReadOne());
  EXPECT_TRUE(Eventually([&] {
    return Page().Value("chorale_requests_total",
                        "code=\"RESOURCE_EXHAUSTED\",method=\"Sample\"") == 1;
  })) << Page().text();
  const Samples next = acme.Sample(MakeSample("data", RandomRows(5, 3, 2), 1, 1));
  ExpectRefused(next.status, "max_values_per_second", "1000 values per second");
}

TEST_F(QuotaTest, ANewQuotaCountsWithoutARestart) {
  StartWith("max_contexts: 1");
  const ApiClient acme = Client("acme");
  EXPECT_TRUE(acme.Register("a", RandomRows(20, 2, 1)).ok());
  EXPECT_FALSE(acme.Register("b", RandomRows(20, 2, 1)).ok());
  Replace("tenants", "tenants: {acme: {max_contexts: 2}}\n");
  EXPECT_TRUE(Eventually([&] { return acme.Register("b", RandomRows(20, 2, 1)).ok(); }));
}

}  // namespace
}  // namespace chorale::end_to_end
