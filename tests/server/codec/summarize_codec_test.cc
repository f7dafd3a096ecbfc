#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/codec/request_decoder.h"
#include "server/codec/response_encoder.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;

v1::SummarizeRequest ValidRequest() {
  v1::SummarizeRequest message;
  message.set_context("contexts/houses");
  v1::Column* column = message.mutable_rows()->add_columns();
  column->set_name("a");
  for (int i = 0; i < 3; ++i) column->mutable_numeric()->add_values(i);
  return message;
}

TEST(SummarizeCodecTest, SummarizeKeepsEverything) {
  auto message = ValidRequest();
  message.set_path_count(7);
  message.set_seed(3);
  message.set_first_path(9);
  message.set_order(v1::SampleRequest::ORDER_RANDOM_PER_PATH);
  message.set_snapping(v1::SNAPPING_OFF);
  message.set_sampling(v1::SampleRequest::SAMPLING_SOBOL);
  message.set_estimator(v1::SummarizeRequest::ESTIMATOR_VALUES);
  message.set_validate_only(true);
  message.add_group_sizes(3);
  message.add_quantiles(0.5);
  message.set_include_covariances(true);
  message.set_returned_path_count(2);
  message.set_target_mean_error(0.5);
  message.set_target_quantile_error(4);
  v1::Functional* sum = message.add_functionals();
  sum->set_type(v1::Functional::TYPE_SUM);
  sum->add_rows(2);
  sum->add_weights(0.25);
  sum->set_target_mean_error(0.125);
  sum->set_target_quantile_error(8);
  v1::Functional* count = message.add_functionals();
  count->set_type(v1::Functional::TYPE_COUNT);
  count->set_threshold(1.5);
  count->set_below(true);
  const absl::StatusOr<SummarizeRequest> request = DecodeSummarize(message, Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->paths, 7);
  EXPECT_EQ(request->seed, 3u);
  EXPECT_EQ(request->first_path, 9);
  EXPECT_EQ(request->order, RowOrder::kRandomPerPath);
  EXPECT_EQ(request->snapping, Snapping::kOff);
  EXPECT_EQ(request->sampling, Sampling::kSobol);
  EXPECT_EQ(request->estimator, Estimator::kValues);
  EXPECT_TRUE(request->validate_only);
  EXPECT_FALSE(request->want_log_densities);
  EXPECT_THAT(request->group_sizes, ElementsAre(3));
  EXPECT_THAT(request->quantiles, ElementsAre(0.5));
  EXPECT_TRUE(request->want_covariances);
  EXPECT_EQ(request->returned_paths, 2);
  EXPECT_EQ(request->target_errors.mean, 0.5);
  EXPECT_EQ(request->target_errors.quantile, 4);
  ASSERT_EQ(request->functionals.size(), 2u);
  EXPECT_EQ(request->functionals[0].type, FunctionalType::kSum);
  EXPECT_THAT(request->functionals[0].rows, ElementsAre(2));
  EXPECT_THAT(request->functionals[0].weights, ElementsAre(0.25));
  EXPECT_FALSE(request->functionals[0].below);
  EXPECT_EQ(request->functionals[0].target_errors.mean, 0.125);
  EXPECT_EQ(request->functionals[0].target_errors.quantile, 8);
  EXPECT_FALSE(request->functionals[1].target_errors.any());
  EXPECT_EQ(request->functionals[1].type, FunctionalType::kCount);
  EXPECT_EQ(request->functionals[1].threshold, 1.5);
  EXPECT_TRUE(request->functionals[1].below);
}

TEST(SummarizeCodecTest, Enumerations) {
  auto message = ValidRequest();
  const auto decode = [&] { return DecodeSummarize(message, Limits()); };
  EXPECT_EQ(decode()->sampling, Sampling::kIndependent);
  EXPECT_EQ(decode()->estimator, Estimator::kConditional);
  message.set_sampling(v1::SampleRequest::SAMPLING_INDEPENDENT);
  message.set_estimator(v1::SummarizeRequest::ESTIMATOR_CONDITIONAL);
  EXPECT_EQ(decode()->sampling, Sampling::kIndependent);
  EXPECT_EQ(decode()->estimator, Estimator::kConditional);
  message.set_estimator(static_cast<v1::SummarizeRequest::Estimator>(9));
  EXPECT_EQ(ErrorField(decode().status()), "estimator");
  message.set_sampling(static_cast<v1::SampleRequest::Sampling>(9));
  EXPECT_EQ(ErrorField(decode().status()), "sampling");
}

TEST(SummarizeCodecTest, EachTypeOfFunctionalHasItsValue) {
  auto message = ValidRequest();
  for (int type = v1::Functional::TYPE_SUM; type <= v1::Functional::Type_MAX; ++type) {
    message.add_functionals()->set_type(static_cast<v1::Functional::Type>(type));
  }
  const absl::StatusOr<SummarizeRequest> request = DecodeSummarize(message, Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  // In the same order.
  for (size_t i = 0; i < request->functionals.size(); ++i) {
    EXPECT_EQ(request->functionals[i].type, static_cast<FunctionalType>(i));
  }
  EXPECT_EQ(request->functionals.back().type, FunctionalType::kSumBeyond);
  message.add_functionals();
  EXPECT_EQ(ErrorField(DecodeSummarize(message, Limits()).status()), "functionals[14].type");
  message.mutable_functionals(14)->set_type(static_cast<v1::Functional::Type>(99));
  EXPECT_EQ(ErrorField(DecodeSummarize(message, Limits()).status()), "functionals[14].type");
}

TEST(SummarizeCodecTest, TheResponseHasEverything) {
  SummarizeResult result;
  result.seed = 9;
  result.path_count = 384;
  result.means = {1, 2};
  result.mean_errors = {0.1, 0.2};
  result.stds = {3, 4};
  result.quantiles = {5, 6, 7, 8};
  result.quantile_errors = {0.5, 0.6, 0.7, 0.8};
  result.conditional = true;
  result.functionals = {{{10}, {11}, {12}, {13, 14}, {15, 16}},
                        {{17, 18}, {19, 20}, {21, 22}, {}, {}}};
  result.covariances = {23, 24, 24, 25};
  result.paths = {26, 27};
  result.known_log_densities = {-1};
  v1::SummarizeResponse message;
  EncodeSummarize(result, &message);
  EXPECT_EQ(message.seed(), 9u);
  EXPECT_EQ(message.path_count(), 384);
  EXPECT_THAT(message.means(), ElementsAre(1, 2));
  EXPECT_THAT(message.mean_errors(), ElementsAre(0.1, 0.2));
  EXPECT_THAT(message.stds(), ElementsAre(3, 4));
  EXPECT_THAT(message.quantiles(), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(message.quantile_errors(), ElementsAre(0.5, 0.6, 0.7, 0.8));
  ASSERT_EQ(message.functionals_size(), 2);
  EXPECT_THAT(message.functionals(0).means(), ElementsAre(10));
  EXPECT_THAT(message.functionals(0).mean_errors(), ElementsAre(11));
  EXPECT_THAT(message.functionals(0).stds(), ElementsAre(12));
  EXPECT_THAT(message.functionals(0).quantiles(), ElementsAre(13, 14));
  EXPECT_THAT(message.functionals(0).quantile_errors(), ElementsAre(15, 16));
  EXPECT_THAT(message.functionals(1).stds(), ElementsAre(21, 22));
  EXPECT_THAT(message.covariances(), ElementsAre(23, 24, 24, 25));
  EXPECT_THAT(message.paths(), ElementsAre(26, 27));
  EXPECT_THAT(message.known_log_densities(), ElementsAre(-1));
  EXPECT_FALSE(message.has_estimate());
}

}  // namespace
}  // namespace chorale
