// A series with a season by a running index alone: the default model is told of it, its answers
// follow it, and the user can forbid it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/server_process.h"
#include "tests/golden/golden_table.h"
#include "tests/support/temp_folder.h"

namespace chorale::end_to_end {
namespace {

using ::testing::HasSubstr;

using Spec = v1::ContextSpec;

constexpr int kRows = 96;
constexpr int kQueryRows = 24;

// A season of 12 months that is no sine, a trend, and noise with a standard deviation of 0.2.
struct Series {
  Series() {
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    for (int i = 0; i < kRows + kQueryRows; ++i) {
      const double angle = 2 * std::numbers::pi * i / 12;
      month.push_back(2001 + i);
      y.push_back(2 * std::sin(angle) + std::cos(2 * angle) + 0.01 * i + 0.2 * normal(random));
    }
  }

  static v1::Table Part(const std::vector<double>& numbers, int first, int last) {
    v1::Table table;
    v1::Column* column = table.add_columns();
    column->set_name("month_number");
    column->mutable_numeric()->mutable_values()->Add(numbers.begin() + first,
                                                     numbers.begin() + last);
    return table;
  }
  v1::Table Context() const {
    v1::Table table = Part(month, 0, kRows);
    *table.add_columns() = Part(y, 0, kRows).columns(0);
    table.mutable_columns(1)->set_name("y");
    return table;
  }
  v1::Table QueryRows() const { return Part(month, kRows, kRows + kQueryRows); }
  std::vector<double> Known() const { return {y.begin() + kRows, y.end()}; }

  std::vector<double> month;
  std::vector<double> y;
};

class SeasonsTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }

  void Start() {
    server_.reset();
    server_ = ServerProcess::Start({.models = {DefaultModelFolder()}, .data_dir = folder_.path()});
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
  }

  v1::RegisterContextResponse Register(const std::string& id, Spec::Seasons seasons) const {
    const auto reply = client_->Register(id, series_.Context(), "y", seasons);
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return reply.value;
  }

  double LogDensity(const std::string& id) const {
    v1::LogDensityRequest request;
    request.set_context(absl::StrCat("contexts/", id));
    *request.mutable_rows() = series_.QueryRows();
    const std::vector<double> known = series_.Known();
    request.mutable_values()->Add(known.begin(), known.end());
    const auto reply = client_->LogDensity(request);
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return reply.ok() ? reply.value.log_densities(0) : 0;
  }

  Samples Draw(const std::string& id) const {
    v1::SampleRequest request;
    request.set_context(absl::StrCat("contexts/", id));
    *request.mutable_rows() = series_.QueryRows();
    request.set_path_count(64);
    request.set_seed(7);
    Samples samples = client_->Sample(request);
    EXPECT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;
    return samples;
  }

  // How far the mean over paths is from what came, in the root of the mean square.
  double ErrorOf(const Samples& samples) const {
    const std::vector<double> known = series_.Known();
    double squares = 0;
    for (int64_t t = 0; t < samples.query_rows; ++t) {
      double mean = 0;
      for (int64_t path = 0; path < samples.paths; ++path) {
        mean += samples.values[path * samples.query_rows + t] / static_cast<double>(samples.paths);
      }
      squares += (mean - known[t]) * (mean - known[t]);
    }
    return std::sqrt(squares / static_cast<double>(samples.query_rows));
  }

  const TempFolder folder_;
  const Series series_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(SeasonsTest, DrawsFollowTheSeasonUnlessItIsNotSought) {
  const v1::RegisterContextResponse told = Register("told", Spec::SEASONS_UNSPECIFIED);
  ASSERT_EQ(told.warnings_size(), 1);
  EXPECT_EQ(told.warnings(0).reason(), v1::Warning::REASON_SEASON);
  EXPECT_EQ(told.warnings(0).column(), "month_number");
  EXPECT_THAT(told.warnings(0).message(), HasSubstr("a season of 12 steps"));
  EXPECT_EQ(told.context().features_size(), 1);
  EXPECT_EQ(told.context().features(0).season_steps(), 12);

  const v1::RegisterContextResponse alone = Register("alone", Spec::SEASONS_OFF);
  EXPECT_EQ(alone.warnings_size(), 0);
  EXPECT_EQ(alone.context().features(0).season_steps(), 0);
  EXPECT_NE(alone.context().digest(), told.context().digest());

  // The noise alone leaves an error of 0.2, and 24 values a log-density of at most about 5.
  EXPECT_GT(LogDensity("told"), LogDensity("alone") + 6);
  EXPECT_LT(ErrorOf(Draw("told")), 0.6);
  EXPECT_LT(ErrorOf(Draw("told")), 0.7 * ErrorOf(Draw("alone")));
}

TEST_F(SeasonsTest, SurvivesARestartWithTheSameBits) {
  const std::string digest = Register("told", Spec::SEASONS_ON).context().digest();
  Register("alone", Spec::SEASONS_OFF);
  const Samples told = Draw("told");
  const Samples alone = Draw("alone");
  server_->Terminate();
  Start();
  EXPECT_EQ(client_->Get("told").value.features(0).season_steps(), 12);
  EXPECT_EQ(client_->Get("alone").value.features(0).season_steps(), 0);
  EXPECT_TRUE(SameBits(Draw("told"), told)) << Difference(Draw("told"), told);
  EXPECT_TRUE(SameBits(Draw("alone"), alone)) << Difference(Draw("alone"), alone);

  // What is registered again is compared with all that was asked.
  EXPECT_TRUE(client_->Register("told", series_.Context(), "y").value.already_registered());
  EXPECT_TRUE(client_->Register("alone", series_.Context(), "y", Spec::SEASONS_OFF)
                  .value.already_registered());
  EXPECT_EQ(
      client_->Register("told", series_.Context(), "y", Spec::SEASONS_OFF).status.error_code(),
      grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(client_->Get("told").value.digest(), digest);
}

}  // namespace
}  // namespace chorale::end_to_end
