// Known values of query rows: the other rows have the conditional distribution.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_server_fixture.h"
#include "tests/end_to_end/statistics.h"

namespace chorale::end_to_end {
namespace {

constexpr int64_t kPaths = 20'000;
constexpr int64_t kBins = 8;  // per query row: 64 cells of 312 paths

class KnownValuesTest : public ModelServerFixture {
 protected:
  static void SetUpTestSuite() {
    ASSERT_NO_FATAL_FAILURE(StartServer({{"dependent", DependentModel()}}));
    RegisterContext("dependent", RandomRows(4, 1, 3), "dependent");
  }

  static Rows QueryRows() { return {.features = 1, .x = {-1.5, 0.25, 1.0}, .y = {}}; }
};

// The last row is known. LogDensity tells the conditional distribution of each drawn value.
TEST_F(KnownValuesTest, TheOtherRowsAreDrawnGivenWhatIsKnown) {
  constexpr int64_t kUnknown = 2;
  std::vector<double> drawn;  // [kPaths, kUnknown]
  for (const uint64_t seed : {14, 15}) {
    v1::SampleRequest request = MakeSample("dependent", QueryRows(), kPaths / 2, seed);
    request.mutable_known()->add_rows(2);
    request.mutable_known()->add_values(1.5);
    const Samples samples = client().Sample(request);
    ASSERT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;
    for (int64_t path = 0; path < samples.paths; ++path) {
      for (int64_t row = 0; row < kUnknown; ++row) {
        drawn.push_back(samples.values[path * samples.query_rows + row]);
      }
    }
  }
  const auto cdfs_given = [&](double known) {
    std::vector<double> cdfs;
    constexpr int64_t kChunk = 4000 * kUnknown;
    for (int64_t first = 0; first < kPaths * kUnknown; first += kChunk) {
      v1::LogDensityRequest density = MakeLogDensity(
          "dependent", QueryRows(), {drawn.begin() + first, drawn.begin() + first + kChunk});
      density.mutable_known()->add_rows(2);
      density.mutable_known()->add_values(known);
      density.set_include_cdfs(true);
      const auto reply = client().LogDensity(density);
      EXPECT_TRUE(reply.ok()) << reply.status.error_message();
      cdfs.insert(cdfs.end(), reply.value.cdfs().begin(), reply.value.cdfs().end());
    }
    return cdfs;
  };
  const std::vector<double> points = cdfs_given(1.5);
  EXPECT_LT(ChiSquareScore(points, kUnknown, kBins), kChiSquareLimit);
  for (int64_t t = 0; t < kUnknown; ++t) {
    EXPECT_LT(KolmogorovScore(points, kUnknown, t), kKolmogorovLimit) << "query row " << t;
  }
  EXPECT_GT(ChiSquareScore(cdfs_given(-1.5), kUnknown, kBins), 1.5 * kChiSquareLimit);
}

TEST_F(KnownValuesTest, KnownValuesHaveTheSameDensityInAllCalls) {
  const std::vector<double> known = {0.5, -1};
  const auto add_known = [&](v1::KnownValues* message) {
    for (const int32_t row : {2, 0}) message->add_rows(row);
    for (const double value : known) message->add_values(value);
  };
  v1::LogDensityRequest density = MakeLogDensity("dependent", QueryRows(), {0.25, 1.5, -2});
  add_known(density.mutable_known());
  const auto given = client().LogDensity(density);
  ASSERT_TRUE(given.ok()) << given.status.error_message();
  ASSERT_EQ(given.value.log_densities_size(), 3);
  ASSERT_EQ(given.value.known_log_densities_size(), 1);

  Rows permuted = QueryRows();
  permuted.x = {permuted.x[2], permuted.x[0], permuted.x[1]};
  const auto joint =
      client().LogDensity(MakeLogDensity("dependent", permuted, {0.5, -1, 0.25, 0.5, -1, 1.5}));
  ASSERT_TRUE(joint.ok()) << joint.status.error_message();
  for (int vector = 0; vector < 2; ++vector) {
    EXPECT_NEAR(given.value.known_log_densities(0) + given.value.log_densities(vector),
                joint.value.log_densities(vector), 1e-4);
  }

  v1::PredictRequest predict = MakePredict("dependent", QueryRows());
  add_known(predict.mutable_known());
  const auto predicted = client().Predict(predict);
  ASSERT_TRUE(predicted.ok()) << predicted.status.error_message();
  EXPECT_EQ(predicted.value.means_size(), 1);
  EXPECT_NEAR(predicted.value.known_log_densities(0), given.value.known_log_densities(0), 1e-4);

  v1::SampleRequest sample = MakeSample("dependent", QueryRows(), 7, 15);
  add_known(sample.mutable_known());
  const Samples samples = client().Sample(sample);
  ASSERT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;
  ASSERT_EQ(samples.summary.known_log_densities_size(), 1);
  EXPECT_NEAR(samples.summary.known_log_densities(0), given.value.known_log_densities(0), 1e-4);
}

// Spoils the known values of a request with kQueryRows query rows in one of kWays ways.
constexpr int32_t kQueryRows = 3;
constexpr int kWays = 9;
void Spoil(int way, std::mt19937_64& random, v1::KnownValues* known) {
  const auto pick = [&](auto... choices) {
    const auto all = {choices...};
    return *(all.begin() + random() % all.size());
  };
  const int at = static_cast<int>(random() % known->rows_size());
  switch (way) {
    case 0:
      return known->set_rows(at, pick(-1, kQueryRows, kQueryRows + 1, INT32_MIN, INT32_MAX));
    case 1:
      known->add_rows(known->rows(at));
      return known->add_values(1);
    case 2:
      known->clear_rows();
      known->clear_values();
      for (int32_t row = 0; row < kQueryRows; ++row) {
        known->add_rows(row);
        known->add_values(row);
      }
      return;
    case 3:
      return known->set_values(at, pick(NAN, INFINITY, -INFINITY));
    case 4:
      return known->set_values(at, pick(1e16, -1e16, 1e300, -1.7e308));
    case 5:
      return known->mutable_values()->RemoveLast();
    case 6:
      return known->add_values(0.5);
    case 7:
      return known->clear_values();
    default:
      return known->clear_rows();
  }
}

TEST_F(KnownValuesTest, GeneratedBadValuesAreRefusedByTheirField) {
  std::mt19937_64 random(16);
  for (int i = 0; i < 300; ++i) {
    v1::KnownValues known;
    known.add_rows(static_cast<int32_t>(random() % kQueryRows));
    known.add_values(0.5);
    if (random() % 2 == 0) {
      known.add_rows((known.rows(0) + 1) % kQueryRows);
      known.add_values(-0.5);
    }
    Spoil(i % kWays, random, &known);
    SCOPED_TRACE(absl::StrCat(i, ": ", known.ShortDebugString()));
    grpc::Status status;
    switch (random() % 3) {
      case 0: {
        v1::PredictRequest request = MakePredict("dependent", QueryRows());
        *request.mutable_known() = known;
        status = client().Predict(request).status;
        break;
      }
      case 1: {
        v1::SampleRequest request = MakeSample("dependent", QueryRows(), 7, 1);
        *request.mutable_known() = known;
        status = client().Sample(request).status;
        break;
      }
      default: {
        // As many values as there are rows left.
        const int left = std::max(kQueryRows - known.rows_size(), 1);
        v1::LogDensityRequest request =
            MakeLogDensity("dependent", QueryRows(), std::vector<double>(left, 0.1));
        *request.mutable_known() = known;
        status = client().LogDensity(request).status;
      }
    }
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    const ErrorDetails details = DetailsOf(status);
    ASSERT_EQ(details.fields.size(), 1u);
    EXPECT_THAT(details.fields[0], ::testing::StartsWith("known."));
  }
  EXPECT_TRUE(client().Predict(MakePredict("dependent", QueryRows())).ok());
}

}  // namespace
}  // namespace chorale::end_to_end
