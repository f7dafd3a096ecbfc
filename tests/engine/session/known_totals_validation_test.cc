// The validation of known totals.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/session/request_validation_fixture.h"

namespace chorale {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_F(RequestValidationTest, KnownTotals) {
  const auto expect = [&](const std::string& field, std::vector<double> lower,
                          std::vector<double> upper, std::vector<int32_t> groups = {}) {
    EXPECT_EQ(Sample([&](SampleRequest& r) {
                r.known_totals = {lower, upper};
                r.group_sizes = groups;
              }),
              field);
  };
  expect("", {3}, {3});
  expect("", {3}, {4});
  expect("", {-kInfinity}, {kInfinity});
  expect("", {-kInfinity, 3}, {2, kInfinity}, {1, 3});
  expect("known_totals.lower", {}, {});
  expect("known_totals.lower", {1, 2}, {3});
  expect("known_totals.lower", {1}, {3, 4}, {1, 3});
  expect("known_totals.upper", {1}, {});
  expect("known_totals.upper", {1, 2}, {3}, {1, 3});
  expect("known_totals.lower[1]", {1, std::nan("")}, {3, 3}, {1, 3});
  expect("known_totals.lower[0]", {kInfinity}, {kInfinity});
  expect("known_totals.upper[0]", {-kInfinity}, {-kInfinity});
  expect("known_totals.upper[1]", {1, 2}, {3, std::nan("")}, {1, 3});
  expect("known_totals.lower[1]", {1, 4}, {3, 3}, {1, 3});
}

TEST_F(RequestValidationTest, WeightsFitIntoAResponse) {
  const auto totals = [](SampleRequest& r) {
    r.known_totals = {{1, 1}, {2, 2}};
    r.group_sizes = {2, 2};
  };
  limits_.max_response_bytes = (10 + 1) * 2 * 8;
  EXPECT_EQ(Sample(totals), "");
  --limits_.max_response_bytes;
  EXPECT_EQ(Sample(totals), "known_totals");
}

}  // namespace
}  // namespace chorale
