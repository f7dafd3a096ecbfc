// Summarize returns the statistics of the values that Sample returns.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_server_fixture.h"

namespace chorale::end_to_end {
namespace {

constexpr double kTolerance = 1e-9;

class SummariesTest : public ModelServerFixture {
 protected:
  // The same paths.
  static v1::SummarizeRequest SummaryOf(const v1::SampleRequest& sample) {
    v1::SummarizeRequest request;
    request.set_context(sample.context());
    *request.mutable_rows() = sample.rows();
    request.set_path_count(sample.path_count());
    request.set_seed(sample.seed());
    return request;
  }
};

TEST_F(SummariesTest, StatisticsAreThoseOfTheSamples) {
  constexpr int64_t kPaths = 1'000;
  constexpr int64_t kRows = 24;
  Rows rows = RandomRows(kRows, 2, 5);
  rows.y.clear();
  const v1::SampleRequest sample = MakeSample("c", rows, kPaths, 3);
  const Samples samples = client().Sample(sample);
  ASSERT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;

  v1::SummarizeRequest request = SummaryOf(sample);
  request.set_estimator(v1::SummarizeRequest::ESTIMATOR_VALUES);
  for (const double q : {0.05, 0.5, 0.95}) request.add_quantiles(q);
  request.add_functionals()->set_type(v1::Functional::TYPE_SUM);
  grpc::ClientContext context;
  v1::SummarizeResponse response;
  const grpc::Status status = client().stub().Summarize(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.means_size(), kRows);
  double mean_of_sum = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<double> values;
    double sum = 0;
    for (int64_t path = 0; path < kPaths; ++path) {
      values.push_back(samples.values[path * kRows + row]);
      sum += values.back();
    }
    EXPECT_NEAR(response.means(row), sum / kPaths, kTolerance);
    mean_of_sum += sum / kPaths;
    std::sort(values.begin(), values.end());
    // Position 0.5 (B - 1) lies in the middle between two values.
    EXPECT_NEAR(response.quantiles(row * 3 + 1), (values[499] + values[500]) / 2, kTolerance);
  }
  EXPECT_NEAR(response.functionals(0).means(0), mean_of_sum, kTolerance);
  EXPECT_EQ(response.seed(), 3u);
  EXPECT_EQ(response.source().context_digest(), samples.summary.source().context_digest());
  // Samples are 192 kB of values.
  EXPECT_LT(response.ByteSizeLong(), 3'000u);
}

// The estimates from mixtures are near the statistics of many values, and their errors are smaller.
TEST_F(SummariesTest, ConditionalEstimatesHaveSmallErrors) {
  Rows rows = RandomRows(6, 2, 5);
  rows.y.clear();
  v1::SummarizeRequest request = SummaryOf(MakeSample("c", rows, 4'000, 3));
  request.set_snapping(v1::SNAPPING_OFF);
  request.add_quantiles(0.9);
  request.add_functionals()->set_type(v1::Functional::TYPE_SUM);
  const auto summarize = [&] {
    grpc::ClientContext context;
    v1::SummarizeResponse response;
    const grpc::Status status = client().stub().Summarize(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  };
  request.set_estimator(v1::SummarizeRequest::ESTIMATOR_VALUES);
  const v1::SummarizeResponse values = summarize();
  EXPECT_FALSE(values.conditional());
  request.clear_estimator();
  request.set_path_count(400);
  const double scale = std::sqrt(10.0);  // of the errors of statistics of 400 values
  for (const auto sampling :
       {v1::SampleRequest::SAMPLING_UNSPECIFIED, v1::SampleRequest::SAMPLING_SOBOL}) {
    request.set_sampling(sampling);
    const v1::SummarizeResponse response = summarize();
    EXPECT_TRUE(response.conditional());
    ASSERT_EQ(response.means_size(), 6);
    for (int row = 0; row < 6; ++row) {
      EXPECT_LT(response.mean_errors(row), scale * values.mean_errors(row));
      EXPECT_LT(response.quantile_errors(row), scale * values.quantile_errors(row));
      EXPECT_NEAR(response.means(row), values.means(row), 6 * scale * values.mean_errors(row));
      EXPECT_NEAR(response.quantiles(row), values.quantiles(row),
                  6 * scale * values.quantile_errors(row));
    }
    EXPECT_TRUE(response.functionals(0).conditional());
    EXPECT_LT(response.functionals(0).mean_errors(0), scale * values.functionals(0).mean_errors(0));
  }
}

// The call stops at a target error, with the response to a call for the paths that it has drawn.
TEST_F(SummariesTest, StopsAtATargetError) {
  Rows rows = RandomRows(6, 2, 5);
  rows.y.clear();
  v1::SummarizeRequest request = SummaryOf(MakeSample("c", rows, 4'000, 3));
  request.set_snapping(v1::SNAPPING_OFF);
  request.add_functionals()->set_type(v1::Functional::TYPE_MAX);
  const auto summarize = [&] {
    grpc::ClientContext context;
    v1::SummarizeResponse response;
    const grpc::Status status = client().stub().Summarize(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    response.clear_timings();
    return response;
  };
  const v1::SummarizeResponse all = summarize();
  EXPECT_EQ(all.path_count(), 4'000);
  const double target = 2 * all.functionals(0).mean_errors(0);  // with about 1,000 paths
  request.mutable_functionals(0)->set_target_mean_error(target);
  const v1::SummarizeResponse stopped = summarize();
  EXPECT_GE(stopped.path_count(), 512);
  EXPECT_LE(stopped.path_count(), 2'048);
  EXPECT_LE(stopped.functionals(0).mean_errors(0), target);
  request.mutable_functionals(0)->clear_target_mean_error();
  request.set_path_count(stopped.path_count());
  EXPECT_EQ(stopped.SerializeAsString(), summarize().SerializeAsString());
}

TEST_F(SummariesTest, ErrorsNameTheField) {
  Rows rows = RandomRows(3, 2, 5);
  rows.y.clear();
  v1::SummarizeRequest request = SummaryOf(MakeSample("c", rows, 10, 3));
  v1::Functional* functional = request.add_functionals();
  functional->set_type(v1::Functional::TYPE_MAX);
  functional->add_rows(3);
  grpc::ClientContext context;
  v1::SummarizeResponse response;
  const grpc::Status status = client().stub().Summarize(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(DetailsOf(status).fields, ::testing::ElementsAre("functionals[0].rows[0]"));
}

}  // namespace
}  // namespace chorale::end_to_end
