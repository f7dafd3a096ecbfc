// Calls of the client with known values of query rows, against a fake server.
#include "client/cpp/known_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/client/cpp/client_fixture.h"

namespace chorale::client {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

v1::KnownValues Known(const std::vector<int32_t>& rows, const std::vector<double>& values) {
  v1::KnownValues known;
  known.mutable_rows()->Add(rows.begin(), rows.end());
  known.mutable_values()->Add(values.begin(), values.end());
  return known;
}

void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& what) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(what));
}

TEST(KnownValuesTest, InvalidRowsAreRejected) {
  EXPECT_TRUE(CheckKnownRows({}, 3).ok());
  EXPECT_TRUE(CheckKnownRows(Known({2, 0}, {1, 2}), 3).ok());
  const std::vector<std::pair<v1::KnownValues, std::string>> cases = {
      {Known({3}, {1}), "known.rows: 3, must be from 0 to 2"},
      {Known({-1}, {1}), "known.rows: -1"},
      {Known({1, 1}, {1, 2}), "known.rows: 1 is repeated"},
      {Known({0, 1, 2}, {1, 2, 3}), "the values of all 3 rows are known"},
  };
  for (const auto& [known, what] : cases) {
    ExpectError(CheckKnownRows(known, 3), absl::StatusCode::kInvalidArgument, what);
  }
}

TEST_F(ClientTest, PredictionsAreThoseOfTheOtherRows) {
  Register("t");
  const auto predictions = client_->Predict("t", MakeRows(4),
                                            {.quantiles = {0.5},
                                             .mixture = PredictOptions::Mixture::kInclude,
                                             .known = Known({2, 0}, {1000, 2000}),
                                             .beyond_buffer = BeyondBuffer::kWrap});
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  EXPECT_THAT(predictions->means, ElementsAre(Score(1) + 3000, Score(3) + 3000));
  EXPECT_THAT(predictions->quantiles, SizeIs(2));
  EXPECT_THAT(predictions->known_log_densities, ElementsAre(-3000));
  const v1::PredictRequest sent = service().predict_requests().back();
  EXPECT_EQ(sent.beyond_buffer(), v1::BEYOND_BUFFER_WRAP);
  // First the known rows, in the order of the call.
  EXPECT_THAT(sent.rows().columns(0).numeric().values(), ElementsAre(20, 0, 10, 30));
  EXPECT_THAT(sent.known().rows(), ElementsAre(0, 1));
  EXPECT_THAT(sent.known().values(), ElementsAre(1000, 2000));
  const auto plain = client_->Predict("t", MakeRows(2), {});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_FALSE(service().predict_requests().back().has_known());
  EXPECT_THAT(plain->known_log_densities, IsEmpty());
}

TEST_F(ClientTest, EachRequestOfPredictHasAllKnownValues) {
  Register("t");
  std::vector<int64_t> progress;
  PredictOptions options{.known = Known({1999, 5}, {1, 2})};
  options.on_progress = [&](int64_t rows) { progress.push_back(rows); };
  const auto predictions = client_->Predict("t", MakeRows(2000), options);
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  EXPECT_THAT(progress, ElementsAre(1022, 1998));
  ASSERT_THAT(predictions->means, SizeIs(1998));
  EXPECT_EQ(predictions->means[4], Score(4) + 3);
  EXPECT_EQ(predictions->means[5], Score(6) + 3);
  EXPECT_EQ(predictions->means[1997], Score(1998) + 3);
  EXPECT_THAT(predictions->known_log_densities, ElementsAre(-3));
  for (const v1::PredictRequest& request : service().predict_requests()) {
    EXPECT_THAT(request.known().values(), ElementsAre(1, 2));
    EXPECT_EQ(request.rows().columns(0).numeric().values(0), 19990);
    EXPECT_EQ(request.rows().columns(0).numeric().values(1), 50);
  }
  // Many known values leave room for a quarter of the rows.
  std::vector<int32_t> many(1000);
  for (int32_t row = 0; row < 1000; ++row) many[row] = row;
  const auto rest = client_->Predict("t", MakeRows(1300),
                                     {.known = Known(many, std::vector<double>(many.size(), 0.0))});
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_THAT(rest->means, SizeIs(300));
  EXPECT_EQ(RowCount(service().predict_requests().back().rows()), 1000 + 300 - 256);
}

TEST_F(ClientTest, KnownRowsAreLocalRows) {
  Register("t");
  PredictOptions options{.known = Known({0, 1, 2}, {1, 2, 3})};
  for (const int64_t local_rows : {1, 3}) {
    options.local_rows = local_rows;
    ExpectError(client_->Predict("t", MakeRows(6), options).status(),
                absl::StatusCode::kInvalidArgument,
                absl::StrCat("local_rows: ", local_rows,
                             ", must be more than the number of known values, 3"));
  }
  EXPECT_THAT(service().predict_requests(), IsEmpty());
  options.local_rows = 4;
  ASSERT_TRUE(client_->Predict("t", MakeRows(6), options).ok());
  EXPECT_THAT(service().predict_requests(), SizeIs(3));
  // A request predicts as many rows as the local rows leave, and at least a quarter of 1/32 of
  // them.
  std::vector<int32_t> many(1000);
  for (int32_t row = 0; row < 1000; ++row) many[row] = row;
  options.known = Known(many, std::vector<double>(many.size(), 0.0));
  for (const auto& [local_rows, last] : {std::pair<int64_t, int64_t>{1024, 2}, {1006, 4}}) {
    options.local_rows = local_rows;
    ASSERT_TRUE(client_->Predict("t", MakeRows(1010), options).ok());
    EXPECT_EQ(RowCount(service().predict_requests().back().rows()), 1000 + last);
  }
}

TEST_F(ClientTest, RequestsHaveAtMostAsManyRowsAsServersAllow) {
  Register("t");
  std::vector<int32_t> many(4000);
  for (int32_t row = 0; row < 4000; ++row) many[row] = row;
  const auto rest = client_->Predict("t", MakeRows(4192),
                                     {.known = Known(many, std::vector<double>(many.size(), 0.0))});
  ASSERT_TRUE(rest.ok()) << rest.status();
  ASSERT_THAT(service().predict_requests(), SizeIs(2));
  for (const v1::PredictRequest& request : service().predict_requests()) {
    EXPECT_EQ(RowCount(request.rows()), 4096);
  }
}

TEST_F(ClientTest, SamplesHaveTheKnownValuesInTheirPlaces) {
  Register("t");
  for (const RowOrder order : {RowOrder::kGiven, RowOrder::kRandomPerPath}) {
    SampleOptions options{.path_count = 3, .seed = 7, .order = order};
    options.step_densities = StepDensities::kInclude;
    options.known = Known({4, 1}, {1000, 2000});
    int64_t progress = 0;
    options.on_progress = [&](int64_t values) { progress = values; };
    const auto samples = client_->Sample("t", MakeRows(kRows), options);
    ASSERT_TRUE(samples.ok()) << samples.status();
    EXPECT_EQ(progress, 3 * (kRows - 2));
    EXPECT_EQ(samples->step_count, kRows - 2);
    EXPECT_THAT(samples->summary.known_log_densities(), ElementsAre(-3000));
    EXPECT_THAT(samples->rows_by_step,
                SizeIs(order == RowOrder::kGiven ? size_t{0} : size_t{3 * (kRows - 2)}));
    for (int64_t path = 0; path < 3; ++path) {
      for (int64_t t = 0; t < kRows; ++t) {
        const int64_t at = path * kRows + t;
        const double known = t == 4 ? 1000 : 2000;
        const bool is_known = t == 4 || t == 1;
        EXPECT_EQ(samples->values[at], is_known ? known : SampleValue(Score(t) + 3000, path, 7));
        EXPECT_EQ(std::isnan(samples->log_densities[at]), is_known);
      }
    }
  }
}

TEST_F(ClientTest, EachPathMayHaveItsKnownValues) {
  Register("t");
  const auto samples = client_->Sample(
      "t", MakeRows(3), {.path_count = 2, .seed = 0, .known = Known({2, 0}, {1, 2, 30, 40})});
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_THAT(samples->values, ElementsAre(2, SampleValue(Score(1) + 3, 0, 0), 1, 40,
                                           SampleValue(Score(1) + 70, 1, 0), 30));
  EXPECT_THAT(samples->summary.known_log_densities(), ElementsAre(-3, -70));
}

TEST_F(ClientTest, DensitiesAreThoseOfTheOtherRows) {
  Register("t");
  LogDensityOptions options{.known = Known({0}, {100})};
  options.terms = LogDensityOptions::Terms::kInclude;
  const std::vector<double> values = {Score(1) + 100, Score(2) + 99, 0, Score(2) + 100};
  const auto densities = client_->LogDensity("t", MakeRows(3), values, options);
  ASSERT_TRUE(densities.ok()) << densities.status();
  EXPECT_THAT(densities->joint, ElementsAre(-1, DoubleNear(-(Score(1) + 100), 1e-9)));
  EXPECT_THAT(densities->terms, SizeIs(4));
  EXPECT_THAT(densities->known_log_densities, ElementsAre(-100));
  options.known = Known({0}, {100, 200});  // of each vector
  const auto each = client_->LogDensity("t", MakeRows(3), values, options);
  ASSERT_TRUE(each.ok()) << each.status();
  EXPECT_THAT(each->known_log_densities, ElementsAre(-100, -200));
  ExpectError(client_->LogDensity("t", MakeRows(3), {1, 2, 3}, options).status(),
              absl::StatusCode::kInvalidArgument,
              "values: 3 values, must be a positive multiple of the 2 rows whose values are not");
}

TEST_F(ClientTest, InvalidKnownRowsAreNotSent) {
  Register("t");
  const int before = service().call_count();
  const v1::KnownValues all = Known({0, 1}, {1, 2});
  const auto invalid = absl::StatusCode::kInvalidArgument;
  ExpectError(client_->Predict("t", MakeRows(2), {.known = all}).status(), invalid, "all 2 rows");
  const SampleOptions options{.path_count = 2, .known = all};
  ExpectError(client_->Sample("t", MakeRows(2), options).status(), invalid, "all 2 rows");
  ExpectError(client_->ValidateSample("t", MakeRows(2), options).status(), invalid, "all 2 rows");
  ExpectError(client_->LogDensity("t", MakeRows(2), {1, 2}, {.known = all}).status(), invalid,
              "all 2 rows");
  EXPECT_EQ(service().call_count(), before);
}

TEST_F(ClientTest, TheServerChecksKnownValues) {
  Register("t");
  ASSERT_TRUE(client_->Predict("t", MakeRows(2), {.known = Known({0}, {kNan})}).ok());
  EXPECT_TRUE(std::isnan(service().predict_requests().back().known().values(0)));
  ASSERT_TRUE(client_->Predict("t", MakeRows(2), {.known = Known({}, {5})}).ok());
  EXPECT_THAT(service().predict_requests().back().known().values(), ElementsAre(5));
  const auto validated =
      client_->ValidateSample("t", MakeRows(2), {.path_count = 2, .known = Known({0}, {1, 2, 3})});
  ASSERT_TRUE(validated.ok()) << validated.status();
  EXPECT_THAT(service().last_sample().known().values(), ElementsAre(1, 2, 3));
  // A server that ignores them does not check their number.
  service().set_ignores_known_values(true);
  for (const v1::KnownValues& known : {Known({0}, {}), Known({0, 2}, {1, 2, 3})}) {
    ExpectError(client_->Sample("t", MakeRows(3), {.path_count = 2, .known = known}).status(),
                absl::StatusCode::kUnimplemented, "does not support known values");
  }
}

TEST_F(ClientTest, ServersThatIgnoreKnownValuesAreTooOld) {
  Register("t");
  service().set_ignores_known_values(true);
  const v1::KnownValues known = Known({2, 1}, {1, 2});
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  const std::string what = "does not support known values";
  ExpectError(client_->Predict("t", MakeRows(kRows), {.known = known}).status(), unimplemented,
              what);
  ExpectError(client_->LogDensity("t", MakeRows(4), {1, 2, 3, 4}, {.known = known}).status(),
              unimplemented, what);
  for (const RowOrder order : {RowOrder::kGiven, RowOrder::kRandomPerPath}) {
    SampleOptions options{.path_count = 2, .order = order, .known = known};
    options.on_paths = [](const Samples&) {
      ADD_FAILURE() << "these are no samples";
      return absl::OkStatus();
    };
    ExpectError(client_->Sample("t", MakeRows(kRows), options).status(), unimplemented, what);
    const auto on_block = [](const v1::SampleBlock&) { return absl::OkStatus(); };
    ExpectError(client_->SampleStream("t", MakeRows(kRows), options, on_block).status(),
                unimplemented, what);
  }
  // The estimate does not depend on them.
  EXPECT_TRUE(
      client_->ValidateSample("t", MakeRows(kRows), {.path_count = 2, .known = known}).ok());
  EXPECT_THAT(service().last_sample().known().rows(), ElementsAre(2, 1));
}

TEST(KnownValuesTest, AnotherNumberOfLogDensitiesIsDataLoss) {
  google::protobuf::RepeatedField<double> two;
  two.Add(1);
  two.Add(2);
  EXPECT_TRUE(CheckKnownLogDensities(two, Known({0}, {1, 2}), 2).ok());
  ExpectError(CheckKnownLogDensities(two, Known({0}, {1}), 2), absl::StatusCode::kDataLoss,
              "sent 2 log-densities of known values instead of 1");
  EXPECT_TRUE(CheckKnownLogDensities({}, {}, 2).ok());
}

}  // namespace
}  // namespace chorale::client
