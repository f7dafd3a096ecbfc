// Contexts that a server reduces to memory sets.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/server_process.h"
#include "tests/golden/golden_table.h"
#include "tests/support/error_reasons.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace chorale::end_to_end {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kFeatures = 2;
// More than two segments, and a set of several keys for each bend of the curve.
constexpr int64_t kRows = kSanitized ? 300 : 4500;
constexpr int64_t kMemoryRows = kSanitized ? 64 : 256;
constexpr int64_t kQueryRows = 32;

constexpr v1::MemoryPolicy kPolicies[] = {v1::MEMORY_POLICY_MERGE, v1::MEMORY_POLICY_HEAVY,
                                          v1::MEMORY_POLICY_SAMPLE};

Rows Table() { return RandomRows(kRows, kFeatures, 1); }
Rows Questions() { return RandomRows(kQueryRows, kFeatures, 2); }

v1::ContextSpec Spec(const std::string& id, int64_t memory_rows, v1::MemoryPolicy policy = {}) {
  v1::ContextSpec spec;
  spec.set_context_id(id);
  spec.set_target_column("y");
  spec.set_memory_row_count(memory_rows);
  spec.set_memory_policy(policy);
  return spec;
}

Rows Part(const Rows& rows, int64_t first, int64_t count) {
  const auto features = rows.x.begin() + first * kFeatures;
  return {.features = kFeatures,
          .x = {features, features + count * kFeatures},
          .y = {rows.y.begin() + first, rows.y.begin() + first + count}};
}

Rows SortedByFirstFeature(const Rows& rows) {
  std::vector<int64_t> order(rows.count());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return rows.x[a * kFeatures] < rows.x[b * kFeatures]; });
  Rows sorted{.features = kFeatures};
  for (const int64_t row : order) {
    const Rows one = Part(rows, row, 1);
    sorted.x.insert(sorted.x.end(), one.x.begin(), one.x.end());
    sorted.y.push_back(one.y[0]);
  }
  return sorted;
}

// Without what differs between equal results.
v1::PredictResponse ResultOf(v1::PredictResponse response) {
  response.clear_timings();
  response.clear_source();
  return response;
}

double MeanDistance(const v1::PredictResponse& a, const v1::PredictResponse& b) {
  double sum = 0;
  for (int i = 0; i < a.means_size(); ++i) sum += std::abs(a.means(i) - b.means(i));
  return sum / a.means_size();
}

double MeanDistance(const v1::PredictResponse& a, double value) {
  double sum = 0;
  for (const double mean : a.means()) sum += std::abs(mean - value);
  return sum / a.means_size();
}

class MemorySetsTest : public ::testing::Test {
 protected:
  // All servers of a test have the same data.
  void Start(const std::vector<std::string>& flags = {}) {
    client_.reset();
    if (server_ != nullptr) server_->Terminate();
    server_ = ServerProcess::Start(
        {.models = {DefaultModelFolder()}, .data_dir = data_.path(), .flags = flags});
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
  }
  void TearDown() override {
    client_.reset();
    if (server_ != nullptr) server_->Terminate();
  }

  v1::Context Register(const v1::ContextSpec& spec, int64_t chunk_rows = 10'000,
                       const Rows& rows = Table()) const {
    std::vector<v1::Table> chunks;
    for (int64_t first = 0; first < rows.count(); first += chunk_rows) {
      chunks.push_back(ContextTable(rows, first, std::min(chunk_rows, rows.count() - first)));
    }
    const auto reply = client_->Upload(spec, chunks);
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return reply.value.context();
  }
  v1::PredictResponse Predict(const std::string& id, const Rows& questions = Questions()) const {
    const auto reply = client_->Predict(MakePredict(id, questions));
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return ResultOf(reply.value);
  }
  Samples Sample(const std::string& id) const {
    return client_->Sample(MakeSample(id, Questions(), /*paths=*/8, /*seed=*/3));
  }
  PrometheusPage Page() const { return PrometheusPage::Fetch(server_->metrics_address()); }
  int64_t Files() const {
    int64_t count = 0;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(data_.path() + "/kv", none)) {
      count += entry.path().extension() == ".kv" ? 1 : 0;
    }
    return count;
  }

  const TempFolder data_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(MemorySetsTest, EachPolicyAnswersFromItsKeys) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const v1::Context whole = Register(Spec("whole", 0));
  EXPECT_EQ(whole.memory_row_count(), 0);
  EXPECT_EQ(whole.memory_policy(), v1::MEMORY_POLICY_UNSPECIFIED);
  const v1::PredictResponse expected = Predict("whole");
  const std::vector<double> y = Table().y;
  const double mean = std::accumulate(y.begin(), y.end(), 0.0) / static_cast<double>(y.size());
  const double spread = MeanDistance(expected, mean);
  EXPECT_GT(spread, 0.3) << "the table says something";
  for (const v1::MemoryPolicy policy : kPolicies) {
    const std::string id = absl::StrCat("policy-", policy);
    SCOPED_TRACE(id);
    const v1::Context context = Register(Spec(id, kMemoryRows, policy));
    EXPECT_EQ(context.memory_row_count(), kMemoryRows);
    EXPECT_EQ(context.memory_policy(), policy);
    EXPECT_EQ(context.row_count(), kRows);
    EXPECT_NE(context.digest(), whole.digest());
    EXPECT_LT(context.resident_bytes(), whole.resident_bytes() * kMemoryRows / kRows * 5 / 4);
    const v1::PredictResponse reduced = Predict(id);
    EXPECT_NE(reduced.SerializeAsString(), expected.SerializeAsString());
    // Heavy hitters are known to represent a table badly.
    if (policy != v1::MEMORY_POLICY_HEAVY) {
      EXPECT_LT(MeanDistance(reduced, expected), 0.4 * spread);
    }
    EXPECT_TRUE(Sample(id).complete());
    EXPECT_EQ(client_->Get(id).value.memory_policy(), policy);
  }
  const PrometheusPage page = Page();
  EXPECT_EQ(page.Value("chorale_memory_set_keys_total"), 3 * kMemoryRows);
  EXPECT_EQ(page.Value("chorale_memory_set_keys_total", "policy=\"heavy\""), kMemoryRows);
  EXPECT_EQ(page.Value("chorale_encoded_rows_total"), 4 * kRows);
}

// Only the digest is another, and with it the random numbers of samples.
TEST_F(MemorySetsTest, NoFewerKeysThanRowsAreTheWholeContext) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const Rows rows = RandomRows(200, kFeatures, 1);
  const auto register_first = [&](const v1::ContextSpec& spec) {
    const auto reply = client_->Upload(spec, {ContextTable(rows, 0, rows.count())});
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return reply.value.context();
  };
  const v1::Context whole = register_first(Spec("whole", 0));
  const v1::Context same = register_first(Spec("same", 200, v1::MEMORY_POLICY_SAMPLE));
  EXPECT_EQ(same.resident_bytes(), whole.resident_bytes());
  EXPECT_EQ(same.memory_row_count(), 200);
  EXPECT_NE(same.digest(), whole.digest());
  EXPECT_EQ(Predict("same").SerializeAsString(), Predict("whole").SerializeAsString());
  const std::vector<double> values(kQueryRows, 0.5);
  const auto density = [&](const std::string& id) {
    return client_->LogDensity(MakeLogDensity(id, Questions(), values)).value.log_densities(0);
  };
  EXPECT_EQ(density("same"), density("whole"));
  const auto over_orders = [&](const std::string& id) {
    v1::LogDensityRequest request = MakeLogDensity(id, Questions(), values);
    request.set_random_order_count(2);
    request.set_seed(3);
    return client_->LogDensity(request).value.log_densities(0);
  };
  EXPECT_NE(over_orders("same"), over_orders("whole")) << "the orders depend on the digest";
  EXPECT_FALSE(SameBits(Sample("same"), Sample("whole")));
}

// The rows are encoded in a random order, so that the first segments represent the whole table.
TEST_F(MemorySetsTest, BothEndsOfASortedTableAreKept) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const Rows sorted = SortedByFirstFeature(Table());
  const Rows questions = SortedByFirstFeature(RandomRows(200, kFeatures, 2));
  Register(Spec("whole", 0), 10'000, sorted);
  for (const v1::MemoryPolicy policy : {v1::MEMORY_POLICY_MERGE, v1::MEMORY_POLICY_SAMPLE}) {
    const std::string id = absl::StrCat("policy-", policy);
    Register(Spec(id, kMemoryRows, policy), 10'000, sorted);
    for (const int64_t first : {int64_t{0}, questions.count() - kQueryRows}) {
      SCOPED_TRACE(absl::StrCat(id, ", questions from ", first));
      const Rows end = Part(questions, first, kQueryRows);
      const v1::PredictResponse expected = Predict("whole", end);
      const double mean = std::accumulate(expected.means().begin(), expected.means().end(), 0.0) /
                          static_cast<double>(kQueryRows);
      EXPECT_LT(MeanDistance(Predict(id, end), expected), 0.5 * MeanDistance(expected, mean));
    }
  }
}

TEST_F(MemorySetsTest, TheChunksOfAnUploadDoNotMatter) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const v1::Context at_once = Register(Spec("at-once", kMemoryRows));
  const v1::Context in_chunks = Register(Spec("in-chunks", kMemoryRows), 97);
  EXPECT_EQ(in_chunks.digest(), at_once.digest());
  EXPECT_EQ(Difference(Sample("in-chunks"), Sample("at-once")), "");
}

TEST_F(MemorySetsTest, TheSameBitsAfterARestartAndWithOtherThreads) {
  ASSERT_NO_FATAL_FAILURE(Start({"--threads=1"}));
  std::vector<Samples> expected;
  for (const v1::MemoryPolicy policy : kPolicies) {
    const std::string id = absl::StrCat("policy-", policy);
    Register(Spec(id, kMemoryRows, policy));
    expected.push_back(Sample(id));
  }
  ASSERT_NO_FATAL_FAILURE(Start({"--threads=2"}));
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string id = absl::StrCat("policy-", kPolicies[i]);
    EXPECT_EQ(Difference(Sample(id), expected[i]), "") << id;
    EXPECT_EQ(client_->Get(id).value.memory_policy(), kPolicies[i]);
  }
  EXPECT_EQ(Page().Value("chorale_encode_seconds_count"), 3);
}

TEST_F(MemorySetsTest, TheSameBitsFromFiles) {
  // Room for one of them.
  const std::vector<std::string> flags = {
      "--context_files_mib=512", kSanitized ? "--context_pool_mib=1" : "--context_pool_mib=4"};
  ASSERT_NO_FATAL_FAILURE(Start(flags));
  Register(Spec("a", kMemoryRows, v1::MEMORY_POLICY_MERGE));
  Register(Spec("b", kMemoryRows, v1::MEMORY_POLICY_SAMPLE));
  const Samples a = Sample("a");
  ASSERT_TRUE(Eventually([&] { return Files() == 1; }));
  const Samples b = Sample("b");
  ASSERT_TRUE(Eventually([&] { return Files() == 2; }));
  EXPECT_EQ(Difference(Sample("a"), a), "") << "evicted and read";
  EXPECT_EQ(Difference(Sample("b"), b), "");
  EXPECT_EQ(Page().Value("chorale_encode_seconds_count"), 2);
  EXPECT_EQ(Page().Value("chorale_restore_seconds_count"), 2);
  ASSERT_NO_FATAL_FAILURE(Start(flags));
  EXPECT_EQ(Difference(Sample("a"), a), "") << "after a restart";
  EXPECT_EQ(Page().Value("chorale_encode_seconds_count"), 0);
}

TEST_F(MemorySetsTest, AValidationHasTheCostOfTheSet) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::ContextSpec spec = Spec("c", kMemoryRows, v1::MEMORY_POLICY_HEAVY);
  spec.set_validate_only(true);
  const Rows rows = Table();
  const auto validated = client_->Upload(spec, {ContextTable(rows, 0, rows.count())});
  ASSERT_TRUE(validated.ok()) << validated.status.error_message();
  EXPECT_EQ(validated.value.context().memory_row_count(), kMemoryRows);
  EXPECT_GE(validated.value.estimate().device_bytes(), validated.value.context().resident_bytes());
  EXPECT_EQ(client_->Get("c").status.error_code(), grpc::StatusCode::NOT_FOUND);
  spec.set_validate_only(false);
  const v1::Context context = Register(spec);
  EXPECT_EQ(context.digest(), validated.value.context().digest());
  EXPECT_EQ(context.resident_bytes(), validated.value.context().resident_bytes());
}

TEST_F(MemorySetsTest, LocalRowsAreRowsOfTheTable) {
  ASSERT_NO_FATAL_FAILURE(Start());
  Register(Spec("whole", 0));
  Register(Spec("reduced", kMemoryRows));
  const auto local = [&](const std::string& id) {
    v1::PredictRequest request = MakePredict(id, Questions());
    request.set_local_row_count(kRows / 2);
    const auto reply = client_->Predict(request);
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return ResultOf(reply.value);
  };
  const v1::PredictResponse whole = local("whole");
  // Rows that are chosen at random differ with the digest.
  const double distance = MeanDistance(local("reduced"), whole);
  EXPECT_EQ(Page().Value("chorale_memory_set_keys_total"), 0);
  EXPECT_LT(distance, MeanDistance(Predict("reduced"), whole)) << "the set is further away";
}

TEST_F(MemorySetsTest, InvalidSetsNameTheirField) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto refusal = [&](const v1::ContextSpec& spec) {
    const auto reply = client_->Upload(spec, {ContextTable(RandomRows(100, kFeatures, 1), 0, 100)});
    EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(ReasonOf(reply.status), "INVALID_FIELD");
    return DetailsOf(reply.status).fields;
  };
  for (const int64_t memory_rows : {-1, 1, 63}) {
    EXPECT_THAT(refusal(Spec("c", memory_rows)), ElementsAre("spec.memory_row_count"));
  }
  EXPECT_THAT(refusal(Spec("c", 0, v1::MEMORY_POLICY_MERGE)), ElementsAre("spec.memory_policy"));
  EXPECT_THAT(refusal(Spec("c", 64, static_cast<v1::MemoryPolicy>(9))),
              ElementsAre("spec.memory_policy"));
}

// A small model and few rows, for the emulated GPU as well.
TEST(MemorySetsOfAnyDeviceTest, AnswerFromTheirKeys) {
  const auto server = ServerProcess::Start({.models = {GoldenFolder("golden_tiny")}});
  ASSERT_NE(server, nullptr);
  {
    const ApiClient client(server->address());
    const Rows rows = RandomRows(100, 3, 1);
    const Rows questions = RandomRows(5, 3, 2);
    const auto whole = client.Upload(Spec("all", 100), {ContextTable(rows, 0, rows.count())});
    ASSERT_TRUE(whole.ok()) << whole.status.error_message();
    const auto expected = client.Predict(MakePredict("all", questions));
    ASSERT_TRUE(expected.ok()) << expected.status.error_message();
    for (const v1::MemoryPolicy policy : kPolicies) {
      const std::string id = absl::StrCat("policy-", policy);
      SCOPED_TRACE(id);
      const auto added = client.Upload(Spec(id, 64, policy), {ContextTable(rows, 0, rows.count())});
      ASSERT_TRUE(added.ok()) << added.status.error_message();
      EXPECT_LT(added.value.context().resident_bytes(), whole.value.context().resident_bytes());
      const auto reduced = client.Predict(MakePredict(id, questions));
      ASSERT_TRUE(reduced.ok()) << reduced.status.error_message();
      EXPECT_NE(ResultOf(reduced.value).SerializeAsString(),
                ResultOf(expected.value).SerializeAsString());
      EXPECT_LT(MeanDistance(reduced.value, expected.value), 0.5);
    }
  }
  server->Terminate();
}

}  // namespace
}  // namespace chorale::end_to_end
