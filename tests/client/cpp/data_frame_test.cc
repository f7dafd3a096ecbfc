#include "client/cpp/data_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DataFrameTest, HoldsTypedColumns) {
  DataFrame frame;
  ASSERT_TRUE(frame.AddNumeric("n", {1.0, std::nan(""), 3.0}).ok());
  ASSERT_TRUE(frame.AddCategorical("c", {"a", std::nullopt, "a"}).ok());
  EXPECT_EQ(frame.row_count(), 3);
  EXPECT_EQ(frame.Find("n")->missing_count(), 1);
  EXPECT_EQ(frame.Find("c")->missing_count(), 1);
  EXPECT_THAT(frame.Find("c")->categories, ElementsAre("a"));
  EXPECT_THAT(frame.Find("c")->codes, ElementsAre(0, -1, 0));
  ASSERT_TRUE(frame.AddStrings("s", {"3", std::nullopt, ""}).ok());
  EXPECT_THAT(frame.Find("s")->strings, ElementsAre("3", "", ""));
  EXPECT_EQ(frame.Find("s")->missing_count(), 2);
  EXPECT_EQ(frame.Find("x"), nullptr);
}

TEST(DataFrameTest, RefusesBadColumnsAndStaysAsItWas) {
  DataFrame frame;
  ASSERT_TRUE(frame.AddNumeric("n", {1.0, 2.0}).ok());
  const auto expect_refused = [&](const absl::Status& status, const char* what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_EQ(frame.columns().size(), 1u);
  };
  expect_refused(frame.AddNumeric("", {1.0, 2.0}), "empty name");
  expect_refused(frame.AddNumeric("n", {1.0, 2.0}), "'n' already exists");
  expect_refused(frame.AddNumeric("m", {1.0}), "'m' has 1 rows, but the other columns have 2");
  expect_refused(frame.AddNumeric("m", {1.0, 2.0}, Meaning::kBoolean), "row 1: 2 is not a boolean");
  expect_refused(frame.AddNumeric("m", {1.0, -std::numeric_limits<double>::infinity()}),
                 "'m', row 1: the value is infinite");
  expect_refused(frame.AddStrings("s", {"1"}), "'s' has 1 rows, but the other columns have 2");
  expect_refused(frame.AddCategorical("c", {"a", ""}), "is empty");
  expect_refused(frame.AddCategorical("c", {"a", "a"}, {0, 1}), "'a' is listed twice");
  expect_refused(frame.AddCategorical("c", {"a"}, {0, 1}), "row 1: code 1 for 1");
  expect_refused(frame.AddCategorical("c", {"a"}, {0, -2}), "row 1: code -2");
}

}  // namespace
}  // namespace chorale::client
