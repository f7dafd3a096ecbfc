// Known totals: the paths of a call and their weights.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/server_process.h"

namespace chorale::end_to_end {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSeed = 3;
constexpr int64_t kPaths = 40;
constexpr int64_t kRows = 7;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class KnownTotalsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder();
    ModelFiles model({.n_layers = 2, .num_components = 3});
    model.FillRandom(/*seed=*/7, /*gain=*/2.0);
    model.Write(*folder_ / "model");
    server_ = ServerProcess::Start({.models = {*folder_ / "model"}}).release();
    ASSERT_NE(server_, nullptr);
    client_ = new ApiClient(server_->address());
    const auto reply = client_->Register("c", RandomRows(20, 2, 3), "models/model");
    ASSERT_TRUE(reply.ok()) << reply.status.error_message();
  }

  static void TearDownTestSuite() {
    delete client_;
    if (server_ != nullptr) server_->Terminate();
    delete server_;
    delete folder_;
  }

  static Rows QueryRows() {
    Rows rows = RandomRows(kRows, 2, 5);
    rows.y.clear();
    return rows;
  }
  // Of groups of 3 and 4 rows.
  static v1::SampleRequest Request() {
    v1::SampleRequest request = MakeSample("c", QueryRows(), kPaths, kSeed);
    request.add_group_sizes(3);
    request.add_group_sizes(4);
    return request;
  }
  static void AddTotal(double lower, double upper, v1::SampleRequest* request) {
    request->mutable_known_totals()->add_lower(lower);
    request->mutable_known_totals()->add_upper(upper);
  }
  static double SumOf(const std::vector<double>& values, int64_t first, int64_t count) {
    double sum = 0;
    for (int64_t i = first; i < first + count; ++i) sum += values[i];
    return sum;
  }

  static TempFolder* folder_;
  static ServerProcess* server_;
  static ApiClient* client_;
};

TempFolder* KnownTotalsTest::folder_ = nullptr;
ServerProcess* KnownTotalsTest::server_ = nullptr;
ApiClient* KnownTotalsTest::client_ = nullptr;

TEST_F(KnownTotalsTest, PathsHaveTheTotalsAndWeights) {
  const Samples free = client_->Sample(Request());
  ASSERT_TRUE(free.complete()) << free.status.error_message() << free.problem;
  EXPECT_EQ(free.summary.total_log_weights_size(), 0);
  const double first = SumOf(free.values, 0, 3);  // as a path may have it
  const double second = SumOf(free.values, 3, 4);

  v1::SampleRequest request = Request();
  AddTotal(first, first, &request);
  AddTotal(second - 0.2, kInfinity, &request);
  const Samples samples = client_->Sample(request);
  ASSERT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;
  ASSERT_EQ(samples.summary.total_log_weights_size(), 2 * kPaths);
  ASSERT_EQ(samples.summary.total_effective_sample_sizes_size(), 2);

  v1::LogDensityRequest scored = MakeLogDensity("c", QueryRows(), samples.values);
  *scored.mutable_group_sizes() = request.group_sizes();
  scored.set_include_terms(true);
  const auto densities = client_->LogDensity(scored);
  ASSERT_TRUE(densities.ok()) << densities.status.error_message();
  for (int64_t path = 0; path < kPaths; ++path) {
    for (int64_t row = 0; row < kRows; ++row) {
      if (row == 2 || row == 6) continue;  // the last ones
      EXPECT_EQ(samples.values[path * kRows + row], free.values[path * kRows + row]);
    }
    EXPECT_NEAR(SumOf(samples.values, path * kRows, 3), first, 1e-9);
    EXPECT_GE(SumOf(samples.values, path * kRows + 3, 4), second - 0.2 - 1e-9);
    const double term = densities.value.terms(path * kRows + 2);
    EXPECT_NEAR(samples.summary.total_log_weights(2 * path), term, 1e-4 * (1 + std::abs(term)));
    EXPECT_LE(samples.summary.total_log_weights(2 * path + 1), 0) << "a probability";
  }
  for (int64_t group = 0; group < 2; ++group) {
    double sum = 0;
    double squares = 0;
    for (int64_t path = 0; path < kPaths; ++path) {
      const double weight = std::exp(samples.summary.total_log_weights(2 * path + group));
      sum += weight;
      squares += weight * weight;
    }
    EXPECT_NEAR(samples.summary.total_effective_sample_sizes(group), sum * sum / squares, 1e-6);
  }
}

TEST_F(KnownTotalsTest, BadTotalsAreRejected) {
  v1::SampleRequest request = Request();
  AddTotal(3, 3, &request);
  Samples samples = client_->Sample(request);
  EXPECT_EQ(samples.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(samples.status.error_message(), HasSubstr("known_totals.lower: has 1 entries"));
  AddTotal(3, 2, &request);
  samples = client_->Sample(request);
  EXPECT_THAT(samples.status.error_message(), HasSubstr("known_totals.lower[1]: is 3"));
}

}  // namespace
}  // namespace chorale::end_to_end
