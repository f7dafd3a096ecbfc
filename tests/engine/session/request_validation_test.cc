#include "engine/session/request_validation.h"

#include <algorithm>
#include <cmath>
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

using testing::MakeTargets;

TEST_F(RequestValidationTest, LocalRows) {
  for (const int64_t good : {0, 4, 5, 65'536}) {
    EXPECT_EQ(Sample([&](auto& r) { r.local_rows = good; }), "") << good;
  }
  for (const int64_t bad : {-1, 1, 3, 65'537}) {
    EXPECT_EQ(Sample([&](auto& r) { r.local_rows = bad; }), "local_row_count") << bad;
    EXPECT_EQ(Density([&](auto& r) { r.local_rows = bad; }), "local_row_count") << bad;
    EXPECT_EQ(Predict([&](auto& r) { r.local_rows = bad; }), "local_row_count") << bad;
  }
}

TEST_F(RequestValidationTest, Sample) {
  EXPECT_TRUE(ValidateRequest(GoodSample(), config_, limits_, *backend_).ok());
  EXPECT_EQ(Sample([](auto& r) { r.paths = 0; }), "path_count");
  EXPECT_EQ(Sample([](auto& r) { r.paths = -1; }), "path_count");
  EXPECT_EQ(Sample([](auto& r) { r.paths = 50; }), "");
  EXPECT_EQ(Sample([](auto& r) { r.paths = 51; }), "path_count");
  EXPECT_EQ(Sample([](auto& r) { r.query_rows.columns.clear(); }), "rows.columns");
  EXPECT_EQ(Sample([](auto& r) { r.query_rows = MakeTargets(0); }), "rows");
  EXPECT_EQ(Sample([](auto& r) { r.query_rows.columns.resize(6); }), "rows.columns");
  EXPECT_EQ(Sample([](auto& r) { r.query_rows = MakeTargets(8); }), "");
  EXPECT_EQ(Sample([](auto& r) { r.query_rows = MakeTargets(9); }), "rows");
  const auto wrapped = [](int64_t rows, int64_t paths) {
    return [=](auto& r) {
      r.query_rows = MakeTargets(rows);
      r.paths = paths;
      r.beyond_buffer = BeyondBuffer::kWrap;
    };
  };
  EXPECT_EQ(Sample(wrapped(20, 15)), "");
  EXPECT_EQ(Sample(wrapped(21, 1)), "rows");
  EXPECT_EQ(Sample(wrapped(20, 16)), "path_count");  // 320 values
}

TEST_F(RequestValidationTest, FirstPath) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto first = [](int64_t path, int64_t paths) {
    return [=](auto& r) {
      r.first_path = path;
      r.paths = paths;
    };
  };
  EXPECT_EQ(Sample(first(kMost - 7, 7)), "");
  EXPECT_EQ(Sample(first(kMost - 6, 7)), "first_path");
  EXPECT_EQ(Sample(first(std::numeric_limits<int64_t>::max(), 7)), "first_path");
  EXPECT_EQ(Sample(first(-1, 7)), "first_path");
}

TEST_F(RequestValidationTest, SampleThatCanNeverFitNamesNeededAndAvailableBytes) {
  testing::FakeBackendOptions options;
  options.buffer_pool_bytes = 1000;
  const auto small = NewFakeBackend(options, &log_);
  const absl::Status status = ValidateRequest(GoodSample(), config_, limits_, *small);
  EXPECT_EQ(ErrorField(status), "rows");
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("1024 bytes"));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("the pool has 1000"));
  SampleRequest fits = GoodSample();
  fits.paths = 3;
  EXPECT_TRUE(ValidateRequest(fits, config_, limits_, *small).ok());
}

TEST_F(RequestValidationTest, DensityThatCanNeverFitNamesTheTargets) {
  testing::FakeBackendOptions options;
  options.buffer_pool_bytes = 4 * 64;
  const auto small = NewFakeBackend(options, &log_);
  LogDensityRequest request = GoodDensity();
  EXPECT_TRUE(ValidateRequest(request, config_, limits_, *small).ok());
  request.query_rows = MakeTargets(5);
  request.vectors = 4;
  const absl::Status status = ValidateRequest(request, config_, limits_, *small);
  EXPECT_EQ(ErrorField(status), "rows");
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("320 bytes"));
}

TEST_F(RequestValidationTest, LogDensity) {
  EXPECT_EQ(Density([](auto& r) {}), "");
  EXPECT_EQ(Density([](auto& r) { r.vectors = 0; }), "values");
  EXPECT_EQ(Density([](auto& r) { r.vectors = 4; }), "values");
  EXPECT_EQ(Density([](auto& r) { r.y.pop_back(); }), "values");
  EXPECT_EQ(Density([](auto& r) { r.y[7] = std::nan(""); }), "values[7]");
  EXPECT_EQ(Density([](auto& r) { r.y[0] = -std::numeric_limits<double>::infinity(); }),
            "values[0]");
  EXPECT_EQ(Density([](auto& r) { r.random_orders = -1; }), "random_order_count");
  EXPECT_EQ(Density([](auto& r) { r.random_orders = 6; }), "");
  EXPECT_EQ(Density([](auto& r) { r.random_orders = 7; }), "random_order_count");
  EXPECT_EQ(Density([](auto& r) { r.want_terms = true; }), "");
  EXPECT_EQ(Density([](auto& r) {
              r.want_terms = true;
              r.random_orders = 1;
            }),
            "include_terms");
  EXPECT_EQ(Density([](auto& r) {
              r.want_mixtures = true;
              r.random_orders = 1;
            }),
            "include_mixtures");
  EXPECT_EQ(Density([](auto& r) { r.want_cdfs = true; }), "");
  EXPECT_EQ(Density([](auto& r) {
              r.want_cdfs = true;
              r.random_orders = 1;
            }),
            "include_cdfs");
  const auto many = [](int64_t vectors, int64_t orders, bool mixtures) {
    return [=](auto& r) {
      r.vectors = vectors;
      r.y.assign(vectors * 4, 1.0);
      r.random_orders = orders;
      r.want_mixtures = mixtures;
    };
  };
  EXPECT_EQ(Density(many(50, 0, false)), "");
  EXPECT_EQ(Density(many(51, 0, false)), "values");
  EXPECT_EQ(Density(many(15, 5, false)), "");
  EXPECT_EQ(Density(many(16, 5, false)), "random_order_count");  // 320 values
  EXPECT_EQ(Density(many(25, 0, true)), "");
  EXPECT_EQ(Density(many(26, 0, true)), "include_mixtures");  // 26 x 4 x 3 components
  EXPECT_EQ(Density([](auto& r) {
              r.query_rows = MakeTargets(10);
              r.vectors = 2;
            }),
            "rows");
}

TEST_F(RequestValidationTest, Predict) {
  EXPECT_EQ(Predict([](auto& r) {}), "");
  EXPECT_EQ(Predict([](auto& r) { r.query_rows = MakeTargets(20); }), "");  // needs no buffer
  EXPECT_EQ(Predict([](auto& r) { r.query_rows = MakeTargets(21); }), "rows");
  EXPECT_EQ(Predict([](auto& r) { r.quantiles = {0.5, 0}; }), "quantiles[1]");
  EXPECT_EQ(Predict([](auto& r) { r.quantiles = {1}; }), "quantiles[0]");
  EXPECT_EQ(Predict([](auto& r) { r.quantiles = {std::nan("")}; }), "quantiles[0]");
  EXPECT_EQ(Predict([](auto& r) { r.quantiles.assign(4, 0.5); }), "quantiles");
  limits_.max_values = 10;
  EXPECT_EQ(Predict([](auto& r) { r.quantiles.assign(3, 0.5); }), "quantiles");  // 4 x 3
  EXPECT_EQ(Predict([](auto& r) { r.want_mixtures = true; }), "include_mixtures");
}

TEST_F(RequestValidationTest, PredictionsFitIntoAResponse) {
  const auto ask = [](size_t quantiles, bool mixtures) {
    return [=](auto& r) {
      r.quantiles.assign(quantiles, 0.5);
      r.want_mixtures = mixtures;
    };
  };
  limits_.max_response_bytes = 4 * 2 * 8;  // 4 means, 4 stds
  EXPECT_EQ(Predict(ask(0, false)), "");
  EXPECT_EQ(Predict(ask(1, false)), "quantiles");
  EXPECT_EQ(Predict(ask(0, true)), "include_mixtures");
  EXPECT_EQ(Predict(ask(1, true)), "quantiles");  // the first that does not fit
  --limits_.max_response_bytes;
  EXPECT_EQ(Predict(ask(0, false)), "rows");
  limits_.max_response_bytes = 4 * (2 + 3) * 8;
  EXPECT_EQ(Predict(ask(3, false)), "");
  limits_.max_response_bytes = 4 * (2 + 3 + 3 * 3) * 8;  // 3 components of 3 numbers
  EXPECT_EQ(Predict(ask(3, true)), "");
  --limits_.max_response_bytes;
  EXPECT_EQ(Predict(ask(3, true)), "include_mixtures");
}

TEST_F(RequestValidationTest, DensitiesFitIntoAResponse) {
  const auto ask = [](bool terms, bool mixtures, int64_t orders = 0) {
    return [=](auto& r) {
      r.want_terms = terms;
      r.want_mixtures = mixtures;
      r.random_orders = orders;
    };
  };
  limits_.max_response_bytes = 5 * 8;
  EXPECT_EQ(Density(ask(false, false)), "");
  EXPECT_EQ(Density(ask(false, false, 1)), "");
  EXPECT_EQ(Density(ask(false, false, 2)), "values");  // standard errors too
  EXPECT_EQ(Density(ask(true, false)), "include_terms");
  EXPECT_EQ(Density(ask(false, true)), "include_mixtures");
  --limits_.max_response_bytes;
  EXPECT_EQ(Density(ask(false, false)), "values");
  limits_.max_response_bytes = 2 * 5 * 8;
  EXPECT_EQ(Density(ask(false, false, 2)), "");
  limits_.max_response_bytes = (5 + 5 * 4) * 8;
  EXPECT_EQ(Density(ask(true, false)), "");
  limits_.max_response_bytes = (5 + 5 * 4 + 3 * 5 * 4 * 3) * 8;
  EXPECT_EQ(Density(ask(true, true)), "");
  --limits_.max_response_bytes;
  EXPECT_EQ(Density(ask(true, true)), "include_mixtures");
  const auto cdfs = [](auto& r) { r.want_cdfs = true; };
  limits_.max_response_bytes = (5 + 5 * 4) * 8;
  EXPECT_EQ(Density(cdfs), "");
  --limits_.max_response_bytes;
  EXPECT_EQ(Density(cdfs), "include_cdfs");
}

TEST_F(RequestValidationTest, AResponseThatCannotFitNamesNeededAndAllowedBytes) {
  LogDensityRequest request = GoodDensity();
  request.want_mixtures = true;
  limits_.max_response_bytes = 1000;
  const absl::Status status = ValidateRequest(request, config_, limits_, *backend_);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("1480 bytes"));  // 5 + 180
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("the limit is 1000"));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("fewer rows"));
}

TEST_F(RequestValidationTest, ProductsOfHugeCountsDoNotOverflow) {
  limits_.max_paths = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Sample([](auto& r) { r.paths = std::numeric_limits<int64_t>::max() / 2; }),
            "path_count");
  limits_.max_orders = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Density([](auto& r) { r.random_orders = std::numeric_limits<int64_t>::max() / 2; }),
            "random_order_count");
}

}  // namespace
}  // namespace chorale
