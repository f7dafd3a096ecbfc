// Tables of users: a corrupt cell, uninformative columns, unknown values, one seed for two tables,
// a table that is replaced. The default model's results remain right, and changes are reported.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/server_process.h"
#include "tests/golden/golden_table.h"

namespace chorale::end_to_end {
namespace {

using ::testing::HasSubstr;

class RealTablesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = ServerProcess::Start({.models = {DefaultModelFolder()}}).release();
  }
  static void TearDownTestSuite() { delete server_; }
  void SetUp() override {
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
  }

  v1::RegisterContextResponse Register(const std::string& id, const v1::Table& table) const {
    const auto reply = client_->Register(id, table, "y");
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return reply.value;
  }

  Reply<v1::PredictResponse> Predict(const std::string& id, const v1::Table& query_rows,
                                     const v1::Source& expected = {}) const {
    v1::PredictRequest request;
    request.set_context(absl::StrCat("contexts/", id));
    *request.mutable_rows() = query_rows;
    *request.mutable_expected_source() = expected;
    return client_->Predict(request);
  }

  v1::PredictResponse Answer(const std::string& id, const v1::Table& query_rows) const {
    const auto reply = Predict(id, query_rows);
    EXPECT_TRUE(reply.ok()) << reply.status.error_message();
    return reply.value;
  }

  static ServerProcess* server_;
  std::unique_ptr<ApiClient> client_;
};

ServerProcess* RealTablesTest::server_ = nullptr;

v1::Table* AddNumbers(v1::Table* table, const std::string& name,
                      const std::vector<double>& values) {
  v1::Column* column = table->add_columns();
  column->set_name(name);
  column->mutable_numeric()->mutable_values()->Add(values.begin(), values.end());
  return table;
}

// Every cell is `category`.
v1::Table* AddCategory(v1::Table* table, const std::string& name, const std::string& category,
                       size_t rows) {
  v1::Column* column = table->add_columns();
  column->set_name(name);
  column->mutable_categorical()->add_categories(category);
  for (size_t row = 0; row < rows; ++row) column->mutable_categorical()->add_codes(0);
  return table;
}

// y = 3 x + 2 z + noise with a standard deviation of 0.5.
struct Linear {
  Linear(int rows, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> uniform(0, 10);
    std::normal_distribution<double> normal;
    for (int row = 0; row < rows; ++row) {
      x.push_back(uniform(random));
      z.push_back(normal(random));
      y.push_back(3 * x.back() + 2 * z.back() + 0.5 * normal(random));
    }
  }
  v1::Table Context() const {
    v1::Table table = QueryRows();
    AddNumbers(&table, "y", y);
    return table;
  }
  v1::Table QueryRows() const {
    v1::Table table;
    AddNumbers(&table, "x", x);
    AddNumbers(&table, "z", z);
    return table;
  }

  std::vector<double> x, z, y;
};

double RootMeanSquareError(const v1::PredictResponse& answer, const std::vector<double>& y) {
  double sum = 0;
  for (size_t row = 0; row < y.size(); ++row) {
    const double error = answer.means(static_cast<int>(row)) - y[row];
    sum += error * error / static_cast<double>(y.size());
  }
  return std::sqrt(sum);
}

double MeanStd(const v1::PredictResponse& answer) {
  double sum = 0;
  for (const double std : answer.stds()) sum += std / answer.stds_size();
  return sum;
}

// The same bits, whatever they were computed from and is said about them.
bool SameNumbers(v1::PredictResponse a, v1::PredictResponse b) {
  for (v1::PredictResponse* response : {&a, &b}) {
    response->clear_source();
    response->clear_warnings();
  }
  return SameBits(a, b);
}

TEST_F(RealTablesTest, OneCorruptCellCostsLittle) {
  const Linear clean(120, 1);
  const Linear asked(40, 2);
  EXPECT_EQ(Register("clean", clean.Context()).warnings_size(), 0);
  const double best = RootMeanSquareError(Answer("clean", asked.QueryRows()), asked.y);
  EXPECT_LT(best, 0.8);
  for (const double wrong : {999999.0, -9999.0, 1e30}) {
    SCOPED_TRACE(wrong);
    const std::string id = absl::StrCat("x", wrong > 1e9 ? "huge" : wrong > 0 ? "high" : "low");
    Linear corrupt = clean;
    corrupt.x[5] = wrong;
    const v1::RegisterContextResponse registered = Register(id, corrupt.Context());
    ASSERT_EQ(registered.warnings_size(), 1);
    EXPECT_EQ(registered.warnings(0).reason(), v1::Warning::REASON_OUTLIERS);
    EXPECT_EQ(registered.warnings(0).column(), "x");
    EXPECT_EQ(registered.warnings(0).cell_count(), 1);
    EXPECT_EQ(registered.context().features(0).outlier_count(), 1);
    const v1::PredictResponse answer = Answer(id, asked.QueryRows());
    EXPECT_LT(RootMeanSquareError(answer, asked.y), 1.3 * best);
    EXPECT_EQ(answer.warnings_size(), 0);
  }
}

TEST_F(RealTablesTest, OneWrongTargetCostsLittle) {
  const Linear clean(120, 3);
  const Linear asked(40, 4);
  Register("y-clean", clean.Context());
  const double best = RootMeanSquareError(Answer("y-clean", asked.QueryRows()), asked.y);
  Linear corrupt = clean;
  corrupt.y[7] = -999999;
  const v1::RegisterContextResponse registered = Register("y-wrong", corrupt.Context());
  ASSERT_EQ(registered.warnings_size(), 1);
  EXPECT_EQ(registered.warnings(0).reason(), v1::Warning::REASON_CLIPPED_TARGET);
  EXPECT_EQ(registered.warnings(0).column(), "y");
  EXPECT_EQ(registered.context().clipped_target_count(), 1);
  const v1::PredictResponse answer = Answer("y-wrong", asked.QueryRows());
  EXPECT_LT(RootMeanSquareError(answer, asked.y), 1.5 * best);
  // What changes an answer is said with it.
  ASSERT_EQ(answer.warnings_size(), 1);
  EXPECT_EQ(answer.warnings(0).reason(), v1::Warning::REASON_CLIPPED_TARGET);
}

// Columns that tell nothing about counts: 70 zeros of 100 rows, 20 ones, 8 twos and 2 sevens.
v1::Table Counts() {
  std::vector<double> x;
  std::vector<double> y;
  for (int i = 0; i < 100; ++i) {
    x.push_back(std::sin(i));
    y.push_back(i % 10 < 7 ? 0 : i % 10 < 9 ? 1 : i < 80 ? 2 : 7);
  }
  v1::Table table;
  AddNumbers(&table, "x", x);
  AddNumbers(&table, "y", y);
  return table;
}

v1::Table AskedAtX(int rows) {
  std::vector<double> x;
  for (int i = 0; i < rows; ++i) x.push_back(std::cos(i));
  v1::Table table;
  AddNumbers(&table, "x", x);
  return table;
}

// Whole numbers from 0 on.
bool AreCounts(absl::Span<const double> values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return value >= 0 && value == std::nearbyint(value); });
}

TEST_F(RealTablesTest, DrawsAndQuantilesOfCountsAreCounts) {
  const v1::RegisterContextResponse registered = Register("counts", Counts());
  ASSERT_EQ(registered.warnings_size(), 1);
  EXPECT_EQ(registered.warnings(0).reason(), v1::Warning::REASON_SNAPPED);
  EXPECT_THAT(registered.warnings(0).message(), HasSubstr("integers, at least 0"));

  v1::SampleRequest sample;
  sample.set_context("contexts/counts");
  *sample.mutable_rows() = AskedAtX(8);
  sample.set_path_count(50);
  sample.set_seed(7);
  sample.set_include_log_densities(true);
  const Samples snapped = client_->Sample(sample);
  ASSERT_TRUE(snapped.status.ok()) << snapped.status.error_message();
  EXPECT_TRUE(AreCounts(snapped.values));
  ASSERT_EQ(snapped.summary.warnings_size(), 1);
  EXPECT_EQ(snapped.summary.warnings(0).reason(), v1::Warning::REASON_SNAPPED);
  sample.set_snapping(v1::SNAPPING_OFF);
  const Samples drawn = client_->Sample(sample);
  EXPECT_FALSE(AreCounts(drawn.values));
  EXPECT_EQ(drawn.summary.warnings_size(), 0);
  EXPECT_EQ(drawn.log_densities, snapped.log_densities) << "refer to the continuous distribution";
  for (size_t i = 0; i < drawn.values.size(); ++i) {
    EXPECT_EQ(snapped.values[i], std::max(std::nearbyint(drawn.values[i]), 0.0));
  }

  v1::PredictRequest predict;
  predict.set_context("contexts/counts");
  *predict.mutable_rows() = AskedAtX(8);
  EXPECT_EQ(client_->Predict(predict).value.warnings_size(), 0) << "means are not snapped";
  for (const double p : {0.01, 0.25, 0.5, 0.75, 0.99}) predict.add_quantiles(p);
  const v1::PredictResponse answer = client_->Predict(predict).value;
  EXPECT_TRUE(AreCounts(answer.quantiles()));
  EXPECT_FALSE(AreCounts(answer.means()));
  EXPECT_EQ(answer.warnings_size(), 1);
  predict.set_snapping(v1::SNAPPING_OFF);
  EXPECT_FALSE(AreCounts(client_->Predict(predict).value.quantiles()));
}

TEST_F(RealTablesTest, RareClaimsAreNotTakenForErrors) {
  std::vector<double> x;
  std::vector<double> y;
  for (int i = 0; i < 1000; ++i) {
    x.push_back(std::sin(i));
    y.push_back(i % 67 == 3 ? 800 * std::exp(0.6 * std::sin(i)) : 0);
  }
  v1::Table table;
  AddNumbers(&table, "x", x);
  AddNumbers(&table, "y", y);
  const v1::RegisterContextResponse registered = Register("claims", table);
  EXPECT_EQ(registered.context().clipped_target_count(), 0);
  const v1::PredictResponse answer = Answer("claims", AskedAtX(50));
  const double mean = std::accumulate(answer.means().begin(), answer.means().end(), 0.0) / 50;
  const double right = std::accumulate(y.begin(), y.end(), 0.0) / 1000;
  EXPECT_GT(mean, 0.5 * right);
}

// Constant columns and an empty one change no bit, whatever is asked there.
TEST_F(RealTablesTest, ColumnsThatSayNothingChangeNoAnswer) {
  const Linear table(120, 5);
  const Linear asked(5, 6);
  const double none = std::nan("");
  const auto with = [](v1::Table features, size_t rows, double year, double day, double bonus,
                       const std::string& site) {
    AddNumbers(&features, "year", std::vector<double>(rows, year));
    AddNumbers(&features, "day", std::vector<double>(rows, day));
    AddNumbers(&features, "bonus", std::vector<double>(rows, bonus));
    AddCategory(&features, "site", site, rows);
    return features;
  };
  Register("bare", table.Context());
  v1::Table context = with(table.QueryRows(), 120, 2024, 738886, none, "north");
  AddNumbers(&context, "y", table.y);
  const v1::RegisterContextResponse registered = Register("padded", context);
  EXPECT_EQ(registered.warnings_size(), 4);
  for (int i = 0; i < registered.warnings_size(); ++i) {
    EXPECT_EQ(registered.warnings(i).reason(), v1::Warning::REASON_DROPPED_COLUMN);
    EXPECT_TRUE(registered.context().features(i + 2).dropped());
  }
  const v1::PredictResponse bare = Answer("bare", asked.QueryRows());
  EXPECT_LT(MeanStd(bare), 0.8);
  const v1::PredictResponse same =
      Answer("padded", with(asked.QueryRows(), 5, 2024, 738886, none, "north"));
  EXPECT_EQ(same.warnings_size(), 0);
  EXPECT_TRUE(SameNumbers(same, bare));
  const v1::PredictResponse other =
      Answer("padded", with(asked.QueryRows(), 5, 2025, 1.7e12, 5000, "south"));
  EXPECT_TRUE(SameNumbers(other, bare));
  ASSERT_EQ(other.warnings_size(), 4);
  for (const v1::Warning& warning : other.warnings()) {
    EXPECT_EQ(warning.reason(), v1::Warning::REASON_DROPPED_COLUMN);
    EXPECT_EQ(warning.cell_count(), 5);
  }
  // A text where the context has nothing.
  v1::Table text = with(asked.QueryRows(), 5, 2024, 738886, none, "north");
  text.mutable_columns()->DeleteSubrange(4, 1);
  AddCategory(&text, "bonus", "none yet", 5);
  EXPECT_TRUE(SameNumbers(Answer("padded", text), bare));
}

TEST_F(RealTablesTest, AllButConstantColumnsAndUnknownCategories) {
  const Linear table(200, 7);
  const Linear asked(5, 8);
  std::vector<double> years(200, 2024);
  years[11] = 2023;
  v1::Table context = table.QueryRows();
  AddNumbers(&context, "year", years);
  AddNumbers(&context, "y", table.y);
  Register("years", context);
  const auto in_year = [&](double year) {
    v1::Table query_rows = asked.QueryRows();
    AddNumbers(&query_rows, "year", std::vector<double>(5, year));
    return Answer("years", query_rows);
  };
  const v1::PredictResponse same = in_year(2024);
  const v1::PredictResponse next = in_year(2025);
  EXPECT_TRUE(SameNumbers(same, next));
  ASSERT_EQ(next.warnings_size(), 1);
  EXPECT_EQ(next.warnings(0).reason(), v1::Warning::REASON_NEAREST_VALUE);

  v1::Table kinds = table.QueryRows();
  v1::Column* kind = kinds.add_columns();
  kind->set_name("kind");
  for (const char* category : {"a", "b", "c"})
    kind->mutable_categorical()->add_categories(category);
  for (int row = 0; row < 200; ++row)
    kind->mutable_categorical()->add_codes(row % 5 < 3 ? 0 : row % 3);
  AddNumbers(&kinds, "y", table.y);
  Register("kinds", kinds);
  const auto of_kind = [&](const std::string& category) {
    v1::Table query_rows = asked.QueryRows();
    AddCategory(&query_rows, "kind", category, 5);
    return Answer("kinds", query_rows);
  };
  const v1::PredictResponse unknown = of_kind("d");
  ASSERT_EQ(unknown.warnings_size(), 1);
  EXPECT_EQ(unknown.warnings(0).reason(), v1::Warning::REASON_UNKNOWN_CATEGORY);
  EXPECT_EQ(unknown.warnings(0).cell_count(), 5);
  EXPECT_FALSE(SameNumbers(unknown, of_kind("a"))) << "it is not the commonest one";
  // As many marks as a message holds, in an order that insertion takes hours to mend.
  std::string marks = "a";
  for (int i = 0; i < 450'000; ++i) marks += "\u0301";
  for (int i = 0; i < 450'000; ++i) marks += "\u0316";
  EXPECT_TRUE(SameNumbers(unknown, of_kind(marks)));
}

std::vector<double> Totals(const Samples& samples) {
  std::vector<double> totals(samples.paths, 0.0);
  for (int64_t path = 0; path < samples.paths; ++path) {
    for (int64_t t = 0; t < samples.query_rows; ++t) {
      totals[path] += samples.values[path * samples.query_rows + t];
    }
  }
  return totals;
}

double Correlation(const std::vector<double>& a, const std::vector<double>& b) {
  double mean_a = 0, mean_b = 0, aa = 0, bb = 0, ab = 0;
  const auto n = static_cast<double>(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    mean_a += a[i] / n;
    mean_b += b[i] / n;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
    ab += (a[i] - mean_a) * (b[i] - mean_b);
  }
  return ab / std::sqrt(aa * bb);
}

// Everybody writes seed 42. 200 pairs, each of 100 totals: a single correlation is 0 give or take
// 0.1, their mean 0 give or take 0.007.
TEST_F(RealTablesTest, OneSeedInTwoTablesGivesIndependentSamples) {
  constexpr int kTables = 21;  // 210 pairs
  constexpr int kPairs = 200;
  std::vector<std::vector<double>> totals;
  const Rows query_rows = RandomRows(4, 2, 99);
  for (int i = 0; i < kTables; ++i) {
    const std::string id = absl::StrCat("store-", i);
    ASSERT_TRUE(client_->Register(id, RandomRows(24, 2, 100 + i)).ok());
    const Samples samples = client_->Sample(MakeSample(id, query_rows, 100, 42));
    ASSERT_TRUE(samples.complete()) << samples.status.error_message();
    totals.push_back(Totals(samples));
  }
  double mean = 0;
  int pairs = 0;
  for (int i = 0; i < kTables; ++i) {
    for (int j = 0; j < i && pairs < kPairs; ++j, ++pairs) {
      mean += Correlation(totals[i], totals[j]) / kPairs;
    }
  }
  ASSERT_EQ(pairs, kPairs);
  EXPECT_LT(std::abs(mean), 0.04);
}

TEST_F(RealTablesTest, AReplacedTableIsNoticed) {
  const Linear first(30, 11);
  const Linear second(30, 12);
  const v1::Table query_rows = Linear(5, 13).QueryRows();
  Register("swap", first.Context());
  const v1::PredictResponse before = Answer("swap", query_rows);
  EXPECT_FALSE(before.source().context_digest().empty());
  EXPECT_FALSE(before.source().model_digest().empty());
  EXPECT_TRUE(Predict("swap", query_rows, before.source()).ok());
  ASSERT_TRUE(client_->Delete("swap").ok());
  Register("swap", second.Context());
  const auto after = Predict("swap", query_rows, before.source());
  EXPECT_EQ(after.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(after.status.error_message(), HasSubstr("it was replaced"));
  v1::SampleRequest sample = MakeSample("swap", RandomRows(2, 2, 1), 2, 1);
  *sample.mutable_rows() = query_rows;
  *sample.mutable_expected_source() = before.source();
  EXPECT_EQ(client_->Sample(sample).status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  sample.mutable_expected_source()->clear_context_digest();
  EXPECT_TRUE(client_->Sample(sample).complete()) << "the model is the same";
  // The same table again is the same.
  ASSERT_TRUE(client_->Delete("swap").ok());
  Register("swap", first.Context());
  EXPECT_TRUE(Predict("swap", query_rows, before.source()).ok());
}

}  // namespace
}  // namespace chorale::end_to_end
