// What the engine computes, on a backend whose numbers are known.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/time/clock.h"
#include "base/error_details.h"
#include "engine/data/feature_transform.h"
#include "engine/session/order_average.h"
#include "engine/session/random_key.h"
#include "kernels/ops/random.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

std::vector<int32_t> OrderOf(uint64_t key, int64_t path, int64_t rows) {
  std::vector<int32_t> order(rows);
  kernels::DrawOrder(key, path, rows, order.data());
  return order;
}

class EngineResultsTest : public EngineFixture {
 protected:
  void Start(Normalization normalize_y = Normalization::kNone) {
    model_.config.normalize_y = normalize_y;
    options_.target_tick = EngineOptions().target_tick;
    StartEngine();
    Register("c");
    transform_ = *FeatureTransform::Fit(MakeDataset(10), model_.config);
  }
  FeatureTransform transform_;
};

TEST_F(EngineResultsTest, SampleDeliversEveryValueOnceInUserUnits) {
  Start(Normalization::kZScore);
  SampleRequest request = SampleOf("c", 11, 6);
  request.want_log_densities = true;
  auto recorder = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, request, recorder);
  ASSERT_TRUE(recorder->Wait().ok());
  EXPECT_EQ(recorder->summary().seed, 7u);
  const uint64_t key = RandomKey(7, recorder->summary().source);
  EXPECT_NE(key, 7u);
  const auto values = recorder->ByTarget(11, 6);
  for (int64_t p = 0; p < 11; ++p) {
    for (int64_t t = 0; t < 6; ++t) {
      EXPECT_DOUBLE_EQ(values[p * 6 + t], transform_.ToUser(FakeValue(key, p, t)));
    }
  }
  const auto sums = recorder->LogDensityOfPaths(11);
  for (int64_t p = 0; p < 11; ++p) {
    double expected = 0;
    for (int64_t t = 0; t < 6; ++t) {
      expected += FakeLogDensity(FakeValue(key, p, t), t, t) - std::log(transform_.y_std());
    }
    EXPECT_NEAR(sums[p], expected, 1e-9);
  }
  EXPECT_EQ(metrics_.values_of(WorkKind::kDecode), 66);
  EXPECT_EQ(metrics_.tile_steps, 3 * 6);
  EXPECT_EQ(metrics_.first_steps, 1);
}

TEST_F(EngineResultsTest, RandomOrdersSayWhichTargetEachValueIsFor) {
  Start();
  SampleRequest request = SampleOf("c", 6, 5);
  request.order = RowOrder::kRandomPerPath;
  auto recorder = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, request, recorder);
  ASSERT_TRUE(recorder->Wait().ok());
  const uint64_t key = RandomKey(7, recorder->summary().source);
  const auto values = recorder->ByTarget(6, 5);
  for (int64_t p = 0; p < 6; ++p) {
    const auto order = OrderOf(key, p, 5);
    for (int64_t position = 0; position < 5; ++position) {
      EXPECT_EQ(values[p * 5 + order[position]], FakeValue(key, p, position));
    }
  }
}

TEST_F(EngineResultsTest, WithoutASeedOneIsChosenThatGivesTheSameSamples) {
  Start();
  auto first = std::make_shared<SampleRecorder>();
  auto second = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 2, 2, std::nullopt), first);
  ASSERT_TRUE(first->Wait().ok());
  EXPECT_LT(first->summary().seed, uint64_t{1} << 53);
  engine_->Sample(call_, SampleOf("c", 2, 2, first->summary().seed), second);
  ASSERT_TRUE(second->Wait().ok());
  EXPECT_EQ(first->ByTarget(2, 2), second->ByTarget(2, 2));
}

TEST_F(EngineResultsTest, AValidatedSampleDrawsNothing) {
  backend_options_.rows_bytes_per_row = 16;
  Start();
  const auto validate = [&](SampleRequest request) {
    request.validate_only = true;
    auto recorder = std::make_shared<SampleRecorder>();
    engine_->Sample(call_, std::move(request), recorder);
    return recorder;
  };
  const auto first = validate(SampleOf("c", 6, 5));
  ASSERT_TRUE(first->Wait().ok());
  EXPECT_TRUE(first->blocks().empty());
  EXPECT_EQ(first->summary().seed, 7u);
  EXPECT_FALSE(first->summary().source.context_digest.empty());
  ASSERT_TRUE(first->summary().estimate.has_value());
  // Two tiles of four paths, and the query rows.
  EXPECT_EQ(first->summary().estimate->device_bytes, 2 * 4 * 5 * 64 + 5 * 16);
  EXPECT_EQ(first->summary().estimate->duration, std::nullopt) << "nothing was drawn yet";
  EXPECT_EQ(StateOf("c"), ContextState::kNotResident);
  EXPECT_EQ(backend_.encodings, 0);

  EXPECT_EQ(ErrorField(validate(SampleOf("c", 0, 5))->Wait()), "path_count");
  EXPECT_EQ(validate(SampleOf("d", 1, 5))->Wait().code(), absl::StatusCode::kNotFound);

  backend_.clock = &clock_;
  backend_.step_time = absl::Milliseconds(10);
  auto drawn = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 6, 5), drawn);
  ASSERT_TRUE(drawn->Wait().ok());
  EXPECT_FALSE(drawn->summary().estimate.has_value());
  const auto second = validate(SampleOf("c", 6, 5));
  ASSERT_TRUE(second->Wait().ok());
  ASSERT_TRUE(second->summary().estimate->duration.has_value());
  EXPECT_GT(*second->summary().estimate->duration, absl::ZeroDuration());
}

TEST_F(EngineResultsTest, LogDensity) {
  Start(Normalization::kZScore);
  LogDensityRequest request = DensityOf("c", 9, 5);
  request.want_terms = true;
  request.want_mixtures = true;
  request.want_cdfs = true;
  request.y[0] = transform_.ToUser(-20.0);  // 10 standard deviations below its mean
  request.y[44] = transform_.ToUser(100.0);
  Answer<LogDensityResult> answer;
  engine_->LogDensity(call_, request, answer.callback());
  const auto result = answer.Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->log_density.size(), 9u);
  EXPECT_TRUE(result->standard_error.empty());
  EXPECT_EQ(result->seed, 0u);
  for (int64_t b = 0; b < 9; ++b) {
    double sum = 0;
    for (int64_t t = 0; t < 5; ++t) {
      const float y = transform_.ToModel(request.y[b * 5 + t]);
      const double term = FakeLogDensity(y, t, t) - std::log(transform_.y_std());
      EXPECT_DOUBLE_EQ(result->terms.at(b * 5 + t), term);
      EXPECT_DOUBLE_EQ(result->mixtures.means.at(b * 5 + t),
                       transform_.ToUser(static_cast<double>(t)));
      EXPECT_DOUBLE_EQ(result->mixtures.stds.at(b * 5 + t), 2 * transform_.y_std());
      EXPECT_DOUBLE_EQ(result->mixtures.weights.at(b * 5 + t), 1);
      const double distance =
          ((request.y[b * 5 + t] - transform_.y_mean()) / transform_.y_std() - t) / 2;
      const double cdf = std::erfc(-distance / std::sqrt(2.0)) / 2;
      EXPECT_NEAR(result->cdfs.at(b * 5 + t), cdf, 1e-9 * cdf);
      sum += term;
    }
    EXPECT_NEAR(result->log_density[b], sum, 1e-9);
  }
  EXPECT_NEAR(result->cdfs[0] / 7.619853024160527e-24, 1, 1e-6);
  EXPECT_EQ(result->cdfs[44], 1);
  // The mixtures need not be in the response.
  request.want_terms = request.want_mixtures = false;
  Answer<LogDensityResult> cdfs_alone;
  engine_->LogDensity(call_, request, cdfs_alone.callback());
  const auto again = cdfs_alone.Wait();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->cdfs, result->cdfs);
  EXPECT_TRUE(again->terms.empty());
  EXPECT_EQ(again->mixtures.components, 0);
}

TEST_F(EngineResultsTest, LogDensityAveragesOverRandomOrders) {
  Start();
  LogDensityRequest request = DensityOf("c", 3, 4);
  request.random_orders = 5;
  Answer<LogDensityResult> answer;
  engine_->LogDensity(call_, request, answer.callback());
  const auto result = answer.Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->seed, 11u);
  for (int64_t b = 0; b < 3; ++b) {
    std::vector<double> orders;
    for (int64_t r = 0; r < 5; ++r) {
      auto order = OrderOf(RandomKey(11, result->source), b * 5 + r / 2 * 2, 4);
      if (r % 2 == 1) std::reverse(order.begin(), order.end());
      double sum = 0;
      for (int64_t position = 0; position < 4; ++position) {
        const auto y = static_cast<float>(request.y[b * 4 + order[position]]);
        sum += FakeLogDensity(y, position, order[position]);
      }
      orders.push_back(sum);
    }
    const OrderAverage expected = AverageOverOrders(orders);
    EXPECT_NEAR(result->log_density.at(b), expected.log_mean, 1e-9);
    EXPECT_NEAR(result->standard_error.at(b), expected.standard_error, 1e-9);
  }
}

TEST_F(EngineResultsTest, PredictInManyChunks) {
  Start(Normalization::kZScore);
  PredictRequest request = PredictOf("c", 1000);
  request.quantiles = {0.5, 0.975};
  request.want_mixtures = true;
  Answer<PredictResult> answer;
  engine_->Predict(call_, request, answer.callback());
  const auto result = answer.Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->mean.size(), 1000u);
  ASSERT_EQ(result->quantiles.size(), 2000u);
  for (int64_t t = 0; t < 1000; ++t) {
    const double mean = transform_.ToUser(static_cast<double>(t));
    const double std = 2 * transform_.y_std();
    ASSERT_NEAR(result->mean[t], mean, 1e-9);
    ASSERT_NEAR(result->std[t], std, 1e-9);
    ASSERT_NEAR(result->quantiles[2 * t], mean, 1e-6);
    ASSERT_NEAR(result->quantiles[2 * t + 1], mean + 1.959963985 * std, 1e-6);
    ASSERT_NEAR(result->mixtures.means[t], mean, 1e-9);
  }
}

TEST_F(EngineResultsTest, SummariesOfPredictionsTakeTurns) {
  options_.limits.max_response_bytes = 16 << 20;
  Start();
  PredictRequest large = PredictOf("c", 16'384);
  for (int q = 1; q <= 64; ++q) large.quantiles.push_back(q / 65.0);
  Answer<PredictResult> large_answer;
  engine_->Predict(call_, large, large_answer.callback());
  absl::SleepFor(absl::Milliseconds(20));  // its rows are through the model, if they may be
  Answer<PredictResult> small_answer;
  engine_->Predict(call_, PredictOf("c", 1), small_answer.callback());
  EXPECT_TRUE(small_answer.Wait().ok());
  EXPECT_FALSE(large_answer.has_come());
  EXPECT_TRUE(large_answer.Wait().ok());
}

TEST_F(EngineResultsTest, TimingsAddUp) {
  Start();
  backend_.microseconds_per_step = 500;
  auto recorder = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 4, 8), recorder);
  ASSERT_TRUE(recorder->Wait().ok());
  const Timings cold = recorder->summary().timings;
  EXPECT_GT(cold.encoding, absl::Microseconds(1500));  // three steps of the fake encoding
  EXPECT_GE(cold.queued, absl::ZeroDuration());
  EXPECT_LE(cold.queued + cold.encoding, cold.first_step);
  EXPECT_LT(cold.first_step, cold.total);

  auto warm = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 4, 8), warm);
  ASSERT_TRUE(warm->Wait().ok());
  EXPECT_EQ(warm->summary().timings.encoding, absl::ZeroDuration());
}

TEST_F(EngineResultsTest, BadRequestsNameTheField) {
  Start();
  SampleRequest no_paths = SampleOf("c", 0, 3);
  SampleRequest too_long = SampleOf("c", 1, 17);
  SampleRequest unknown = SampleOf("c", 1, 3);
  unknown.query_rows.columns[1].name = "z";
  const std::vector<std::pair<SampleRequest, std::string>> cases = {
      {no_paths, "path_count"}, {too_long, "rows"}, {unknown, "rows.columns[\"z\"]"}};
  // Once with the context on disk, where the loader checks, and once with it in memory.
  for (int round = 0; round < 2; ++round) {
    for (const auto& [request, field] : cases) {
      auto recorder = std::make_shared<SampleRecorder>();
      engine_->Sample(call_, request, recorder);
      const absl::Status status = recorder->Wait();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_EQ(ErrorField(status), field);
    }
    MakeResident("c");
  }
  SampleRequest wrapped = SampleOf("c", 1, 17);
  wrapped.beyond_buffer = BeyondBuffer::kWrap;
  auto recorder = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, wrapped, recorder);
  EXPECT_TRUE(recorder->Wait().ok());
}

TEST_F(EngineResultsTest, ARequestThatCanNeverFitNamesTheBytes) {
  backend_options_.buffer_pool_bytes = 4096;
  Start();
  auto recorder = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 16, 16), recorder);  // 4 paths x 16 x 64 bytes: just fits
  EXPECT_TRUE(recorder->Wait().ok());
  SampleRequest request = SampleOf("c", 16, 17);
  request.beyond_buffer = BeyondBuffer::kWrap;
  auto refused = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, request, refused);
  const absl::Status status = refused->Wait();
  EXPECT_EQ(ErrorField(status), "rows");
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(::testing::HasSubstr("4352"), ::testing::HasSubstr("4096")));
}

TEST_F(EngineResultsTest, UnknownContextsAreNotFound) {
  Start();
  Answer<PredictResult> other_name;
  engine_->Predict(call_, PredictOf("d", 1), other_name.callback());
  EXPECT_EQ(other_name.Wait().status().code(), absl::StatusCode::kNotFound);
  Answer<PredictResult> other_tenant;
  engine_->Predict({.tenant = "somebody else"}, PredictOf("c", 1), other_tenant.callback());
  EXPECT_EQ(other_tenant.Wait().status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace chorale::testing
