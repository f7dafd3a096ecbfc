// The default model, served over the network, against the training code's forward pass in float64,
// on real tables with categories and missing cells.
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/expected_values.h"
#include "tests/end_to_end/server_process.h"
#include "tests/golden/golden_table.h"

namespace chorale::end_to_end {
namespace {

constexpr int64_t kPaths = 40;  // more than a tile

std::vector<int64_t> InOrder(int64_t count) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// The given rows of a table, in the given order.
v1::Table Message(const Table& table, const std::vector<int64_t>& rows) {
  v1::Table message;
  for (const Column& column : table.columns) {
    v1::Column* added = message.add_columns();
    added->set_name(column.name);
    if (column.type == ColumnType::kNumeric) {
      for (const int64_t row : rows) added->mutable_numeric()->add_values(column.numbers[row]);
      continue;
    }
    v1::CategoricalValues* values = added->mutable_categorical();
    values->mutable_categories()->Add(column.categories.begin(), column.categories.end());
    for (const int64_t row : rows) values->add_codes(column.codes[row]);
  }
  return message;
}

v1::Table Message(const Dataset& dataset) {
  v1::Table message = Message(dataset.features, InOrder(dataset.features.rows()));
  v1::Column* target = message.add_columns();
  target->set_name(dataset.target);
  target->mutable_numeric()->mutable_values()->Add(dataset.y.begin(), dataset.y.end());
  return message;
}

// Sums of each `count` values.
std::vector<double> Sums(const std::vector<double>& terms, int64_t count) {
  std::vector<double> sums;
  for (auto first = terms.begin(); first != terms.end(); first += count) {
    sums.push_back(std::accumulate(first, first + count, 0.0));
  }
  return sums;
}

// With each table.
class DefaultModelTest : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    server_ = ServerProcess::Start({.models = {DefaultModelFolder()}}).release();
  }
  static void TearDownTestSuite() { delete server_; }

  void SetUp() override {
    if (TestBackend() != "cpu") GTEST_SKIP() << "the bounds are those of float32";
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
    grpc::ClientContext context;
    v1::GetModelRequest request;
    request.set_name("models/default");
    v1::Model model;
    const grpc::Status found = client_->stub().GetModel(&context, request, &model);
    ASSERT_TRUE(found.ok()) << found.error_message();
    absl::StatusOr<GoldenTable> golden = GoldenTable::Open(GetParam(), model.digest());
    ASSERT_TRUE(golden.ok()) << golden.status();
    golden_ = std::make_unique<GoldenTable>(*std::move(golden));
    query_rows_ = golden_->query_rows().rows();
    const auto registered =
        client_->Register(GetParam(), Message(golden_->context()), golden_->context().target);
    ASSERT_TRUE(registered.ok()) << registered.status.error_message();
  }

  // `unit` is what 1 is worth in the units of the values given: means and deviations are compared
  // in the model's units, where y has the deviation 1. In a user's an error can be any number.
  void Compare(const std::string& what, std::vector<double> actual, std::vector<double> expected,
               double unit = 1) const {
    for (double& value : actual) value /= unit;
    for (double& value : expected) value /= unit;
    ExpectAllClose(what, actual, expected);
  }

  void CompareMixtures(const std::string& what, const v1::Mixtures& mixtures,
                       const std::string& tensor) const {
    ExpectedMixtures expected{(*golden_)(tensor + "_mean"), (*golden_)(tensor + "_std"),
                              (*golden_)(tensor + "_weight")};
    expected.OrderLike(mixtures, kTolerance * golden_->y_std());
    Compare(what + " weights", Vector(mixtures.weights()), expected.weights);
    Compare(what + " means", Vector(mixtures.means()), expected.means, golden_->y_std());
    Compare(what + " stds", Vector(mixtures.stds()), expected.stds, golden_->y_std());
  }

  // The query rows taken in that order, with values [B, T] in the same order.
  v1::LogDensityRequest Density(const std::vector<int64_t>& order,
                                const std::vector<double>& values) const {
    v1::LogDensityRequest request;
    request.set_context("contexts/" + GetParam());
    *request.mutable_rows() = Message(golden_->query_rows(), order);
    request.mutable_values()->Add(values.begin(), values.end());
    request.set_include_terms(true);
    return request;
  }

  static inline ServerProcess* server_ = nullptr;
  std::unique_ptr<ApiClient> client_;
  std::unique_ptr<GoldenTable> golden_;
  int64_t query_rows_ = 0;
};

TEST_P(DefaultModelTest, PredictGivesTheMixturesOfTheTrainingCode) {
  v1::PredictRequest request;
  request.set_context("contexts/" + GetParam());
  *request.mutable_rows() = Message(golden_->query_rows(), InOrder(query_rows_));
  request.set_include_mixtures(true);
  const auto reply = client_->Predict(request);
  ASSERT_TRUE(reply.ok()) << reply.status.error_message();
  CompareMixtures("Predict", reply.value.mixtures(), "alone");
}

TEST_P(DefaultModelTest, LogDensityOfPathsIsThatOfTheTrainingCode) {
  const std::vector<double> terms = (*golden_)("path_log_density");
  v1::LogDensityRequest request = Density(InOrder(query_rows_), (*golden_)("path_y"));
  request.set_include_mixtures(true);
  const auto reply = client_->LogDensity(request);
  ASSERT_TRUE(reply.ok()) << reply.status.error_message();
  Compare("terms", Vector(reply.value.terms()), terms);
  Compare("joint", Vector(reply.value.log_densities()), Sums(terms, query_rows_));
  CompareMixtures("mixtures", reply.value.mixtures(), "path");
}

TEST_P(DefaultModelTest, LogDensityInOtherOrdersIsThatOfTheTrainingCode) {
  const std::vector<double> known = (*golden_)("target_y");
  const std::vector<double> orders = (*golden_)("orders");
  std::vector<double> terms;
  std::vector<double> joint;
  for (auto first = orders.begin(); first != orders.end(); first += query_rows_) {
    const std::vector<int64_t> order(first, first + query_rows_);
    std::vector<double> values;
    for (const int64_t row : order) values.push_back(known[row]);
    const auto reply = client_->LogDensity(Density(order, values));
    ASSERT_TRUE(reply.ok()) << reply.status.error_message();
    terms.insert(terms.end(), reply.value.terms().begin(), reply.value.terms().end());
    joint.push_back(reply.value.log_densities(0));
  }
  const std::vector<double> expected = (*golden_)("order_log_density");
  Compare("terms in orders", terms, expected);
  Compare("joint in orders", joint, Sums(expected, query_rows_));
}

// The log-density reported with a drawn value equals that of LogDensity. For the distribution of
// the values see tests/engine/backend/sampling_test.cc.
TEST_P(DefaultModelTest, SampledValuesHaveTheReportedLogDensity) {
  v1::SampleRequest request;
  request.set_context("contexts/" + GetParam());
  *request.mutable_rows() = Message(golden_->query_rows(), InOrder(query_rows_));
  request.set_path_count(kPaths);
  request.set_seed(11);
  request.set_include_log_densities(true);
  const Samples samples = client_->Sample(request);
  ASSERT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;
  const auto reply = client_->LogDensity(Density(InOrder(query_rows_), samples.values));
  ASSERT_TRUE(reply.ok()) << reply.status.error_message();
  Compare("Sample", samples.log_densities, Vector(reply.value.terms()));
}

INSTANTIATE_TEST_SUITE_P(Tables, DefaultModelTest, ::testing::ValuesIn(GoldenTableNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace chorale::end_to_end
