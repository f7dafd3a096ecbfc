#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/error_details.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/session/request_validation_fixture.h"

namespace chorale {
namespace {

class SummarizeValidationTest : public RequestValidationTest {
 protected:
  std::string Summarize(const std::function<void(SummarizeRequest&)>& change) const {
    SummarizeRequest request;
    static_cast<SampleRequest&>(request) = GoodSample();  // 10 paths of 4 rows
    request.quantiles = {0.1, 0.9};
    request.functionals.resize(1);
    change(request);
    return ErrorField(ValidateRequest(request, config_, limits_, *backend_));
  }
};

TEST_F(SummarizeValidationTest, Fields) {
  EXPECT_EQ(Summarize([](auto& r) {}), "");
  EXPECT_EQ(Summarize([](auto& r) { r.paths = 2; }), "");
  EXPECT_EQ(Summarize([](auto& r) { r.paths = 1; }), "path_count");
  EXPECT_EQ(Summarize([](auto& r) { r.paths = 51; }), "path_count");
  limits_.max_paths = 1 << 19;
  limits_.max_values = 1 << 22;
  EXPECT_EQ(Summarize([](auto& r) { r.paths = 1 << 18; }), "");
  EXPECT_EQ(Summarize([](auto& r) { r.paths = (1 << 18) + 1; }), "path_count");
  EXPECT_EQ(Summarize([](auto& r) { r.quantiles = {0.5, 1}; }), "quantiles[1]");
  EXPECT_EQ(Summarize([](auto& r) { r.quantiles.assign(4, 0.5); }), "quantiles");
  EXPECT_EQ(Summarize([](auto& r) { r.returned_paths = 10; }), "");
  EXPECT_EQ(Summarize([](auto& r) { r.returned_paths = 11; }), "returned_path_count");
  EXPECT_EQ(Summarize([](auto& r) { r.returned_paths = -1; }), "returned_path_count");
  EXPECT_EQ(Summarize([](auto& r) { r.group_sizes = {3}; }), "group_sizes");
  EXPECT_EQ(Summarize([](auto& r) { r.target_errors.mean = -1; }), "target_mean_error");
}

TEST_F(SummarizeValidationTest, Functionals) {
  const auto functional = [&](const Functional& functional) {
    return Summarize([&](auto& r) { r.functionals[0] = functional; });
  };
  EXPECT_EQ(functional({.rows = {3, 0}, .weights = {0.5, -1}}), "");
  EXPECT_EQ(functional({.rows = {3, 4}}), "functionals[0].rows[1]");
  EXPECT_EQ(functional({.rows = {-1}}), "functionals[0].rows[0]");
  EXPECT_EQ(functional({.rows = {3, 0, 3}}), "functionals[0].rows[2]");
  EXPECT_EQ(functional({.weights = {1, 2, 3, 4}}), "");
  EXPECT_EQ(functional({.weights = {1, 2, 3}}), "functionals[0].weights");
  EXPECT_EQ(functional({.rows = {1}, .weights = {1, 2, 3, 4}}), "functionals[0].weights");
  EXPECT_EQ(functional({.type = FunctionalType::kMax, .weights = {1, 2, 3, 4}}),
            "functionals[0].weights");
  EXPECT_EQ(functional({.rows = {1}, .weights = {std::numeric_limits<double>::infinity()}}),
            "functionals[0].weights[0]");
  EXPECT_EQ(functional({.threshold = std::numeric_limits<double>::quiet_NaN()}),
            "functionals[0].threshold");
  EXPECT_EQ(functional({.rows = {1, 2}, .weights = {1e30, -1e30}, .threshold = -1e300}), "");
  EXPECT_EQ(functional({.rows = {1, 2}, .weights = {1, -1.1e30}}), "functionals[0].weights[1]");
  EXPECT_EQ(functional({.threshold = 1.1e300}), "functionals[0].threshold");
  EXPECT_EQ(functional({.type = FunctionalType::kSumBeyond, .weights = {1, 2, 3, 4}}), "");
  EXPECT_EQ(Summarize([](auto& r) { r.functionals.resize(64); }), "");
  EXPECT_EQ(Summarize([](auto& r) { r.functionals.resize(65); }), "functionals");
  const auto in_groups = [&](std::vector<int32_t> rows) {
    return Summarize([&](auto& r) {
      r.group_sizes = {2, 2};
      r.functionals[0].rows = rows;
    });
  };
  EXPECT_EQ(in_groups({}), "");
  EXPECT_EQ(in_groups({3, 0}), "");
  EXPECT_EQ(in_groups({1, 0}), "functionals[0].rows");
  const auto local_rows_of = [&](std::vector<int32_t> sizes) {
    return Summarize([&](auto& r) {
      r.group_sizes = sizes;
      r.local_rows = 4;
    });
  };
  EXPECT_EQ(local_rows_of({4}), "");
  EXPECT_EQ(local_rows_of({2, 2}), "local_row_count");
}

TEST_F(SummarizeValidationTest, StatisticsFitIntoAResponse) {
  const auto all = [](auto& r) {
    r.functionals = {{.type = FunctionalType::kSum}, {.type = FunctionalType::kArgmax}};
    r.want_covariances = true;
    r.returned_paths = 2;
  };
  const auto limit = [&](int64_t numbers) { limits_.max_response_bytes = numbers * 8; };
  int64_t numbers = 3 * 4;
  limit(numbers - 1);
  EXPECT_EQ(Summarize(all), "rows");
  numbers += 2 * 2 * 4;
  limit(numbers - 1);
  EXPECT_EQ(Summarize(all), "quantiles");
  numbers += (3 + 2 * 2) + 3 * 4;
  limit(numbers - 1);
  EXPECT_EQ(Summarize(all), "functionals");
  numbers += 4 * 4;
  limit(numbers - 1);
  EXPECT_EQ(Summarize(all), "include_covariances");
  numbers += 2 * 4;
  limit(numbers - 1);
  EXPECT_EQ(Summarize(all), "returned_path_count");
  limit(numbers);
  EXPECT_EQ(Summarize(all), "");
}

}  // namespace
}  // namespace chorale
