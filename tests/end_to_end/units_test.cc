// Tables of extreme numbers, of constants and of one row: the default model's answers are finite
// and the same in every unit, or the table is refused by the column's name.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/server_process.h"
#include "tests/golden/golden_table.h"

namespace chorale::end_to_end {
namespace {

using ::testing::HasSubstr;

class UnitsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = ServerProcess::Start({.models = {DefaultModelFolder()}}).release();
  }
  static void TearDownTestSuite() { delete server_; }
  void SetUp() override {
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
  }

  // Means, standard deviations, quantiles and mixtures.
  std::vector<double> Answers(const std::string& id, const Rows& query_rows) const {
    v1::PredictRequest request = MakePredict(id, query_rows);
    for (const double q : {1e-6, 0.3, 1 - 1e-6}) request.add_quantiles(q);
    request.set_include_mixtures(true);
    const auto predicted = client_->Predict(request);
    EXPECT_TRUE(predicted.ok()) << predicted.status.error_message();
    std::vector<double> answers;
    const v1::PredictResponse& response = predicted.value;
    for (const auto* values : {&response.means(), &response.stds(), &response.quantiles(),
                               &response.mixtures().means(), &response.mixtures().stds()}) {
      answers.insert(answers.end(), values->begin(), values->end());
    }
    return answers;
  }

  // The random numbers of another table are others, and its unit makes it another.
  std::vector<double> SampledValues(const std::string& id, const Rows& query_rows) const {
    const Samples samples = client_->Sample(MakeSample(id, query_rows, 20, 7));
    EXPECT_TRUE(samples.complete()) << samples.status.error_message();
    return samples.values;
  }

  static ServerProcess* server_;
  std::unique_ptr<ApiClient> client_;
};

ServerProcess* UnitsTest::server_ = nullptr;

Rows InUnits(Rows rows, double x_unit, double y_unit) {
  for (double& x : rows.x) x *= x_unit;
  for (double& y : rows.y) y *= y_unit;
  return rows;
}

Rows Constant(Rows rows, double y) {
  std::fill(rows.y.begin(), rows.y.end(), y);
  return rows;
}

// Units are powers of two, so that no number is rounded.
TEST_F(UnitsTest, AnswersAreTheSameInEveryUnit) {
  Rows one_feature = RandomRows(30, 2, 3);
  for (size_t i = 1; i < one_feature.x.size(); i += 2) one_feature.x[i] = 5;
  const std::vector<Rows> tables = {RandomRows(30, 2, 1), Constant(RandomRows(30, 2, 1), -7),
                                    RandomRows(1, 2, 2), one_feature};
  const Rows query_rows = RandomRows(4, 2, 9);
  int number = 0;
  for (const Rows& table : tables) {
    const std::string id = absl::StrCat("units-", number++);
    ASSERT_TRUE(client_->Register(id, table).ok());
    const std::vector<double> expected = Answers(id, query_rows);
    for (const int exponent : {-1000, -10, 10, 860}) {
      SCOPED_TRACE(absl::StrCat("table ", number - 1, " in units of 2^", -exponent));
      const double unit = std::ldexp(1, exponent);
      const double x_unit = std::ldexp(1, exponent / 2);
      const std::string scaled = absl::StrCat(id, ".", exponent + 2000);
      const auto registered = client_->Register(scaled, InUnits(table, x_unit, unit));
      ASSERT_TRUE(registered.ok()) << registered.status.error_message();
      std::vector<double> answers = Answers(scaled, InUnits(query_rows, x_unit, 1));
      ASSERT_EQ(answers.size(), expected.size());
      for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i] / unit, expected[i]) << i;
    }
  }
}

TEST_F(UnitsTest, AnswersAreFiniteOrTheTableIsRefused) {
  const Rows query_rows = RandomRows(4, 2, 9);
  int number = 0;
  int refused = 0;
  for (const double magnitude :
       {5e-324, 1e-310, 1e-308, 1e100, 1e268, 1e275, 1e307, 8e307, 1e308, 1.7e308}) {
    Rows spread = RandomRows(30, 2, 1);
    for (size_t i = 0; i < spread.y.size(); ++i) spread.y[i] = i % 2 == 0 ? magnitude : -magnitude;
    Rows outlier = RandomRows(30, 2, 1);
    outlier.y[3] = magnitude;
    Rows one = RandomRows(1, 2, 2);
    one.y[0] = magnitude;
    for (const Rows& table : {spread, outlier, one, Constant(spread, magnitude)}) {
      const std::string id = absl::StrCat("extreme-", number++);
      SCOPED_TRACE(absl::StrCat(id, " ", magnitude));
      const auto registered = client_->Register(id, table);
      if (!registered.ok()) {
        ++refused;
        EXPECT_GT(magnitude, 1e269);
        EXPECT_EQ(registered.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
        EXPECT_THAT(registered.status.error_message(), HasSubstr("rows.columns[\"y\"]"));
        continue;
      }
      for (const double answer : Answers(id, query_rows)) EXPECT_TRUE(std::isfinite(answer));
      for (const double value : SampledValues(id, query_rows)) EXPECT_TRUE(std::isfinite(value));
      v1::LogDensityRequest density =
          MakeLogDensity(id, query_rows, std::vector<double>(4, table.y[0]));
      const auto reply = client_->LogDensity(density);
      ASSERT_TRUE(reply.ok()) << reply.status.error_message();
      EXPECT_TRUE(std::isfinite(reply.value.log_densities(0)));
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, number);
}

}  // namespace
}  // namespace chorale::end_to_end
