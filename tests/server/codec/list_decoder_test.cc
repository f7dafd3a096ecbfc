#include "server/codec/list_decoder.h"

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using Is = ContextCondition::Test;
using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<ContextQuery> Decode(absl::string_view filter, absl::string_view order_by = "") {
  v1::ListContextsRequest request;
  request.set_filter(std::string(filter));
  request.set_order_by(std::string(order_by));
  return DecodeContextQuery(request);
}

void ExpectCondition(absl::string_view filter, const ContextCondition& expected) {
  const absl::StatusOr<ContextQuery> query = Decode(filter);
  ASSERT_TRUE(query.ok()) << filter << ": " << query.status();
  ASSERT_EQ(query->conditions.size(), 1u) << filter;
  const ContextCondition& condition = query->conditions[0];
  EXPECT_EQ(condition.field, expected.field) << filter;
  EXPECT_EQ(condition.label, expected.label) << filter;
  EXPECT_EQ(condition.test, expected.test) << filter;
  if (expected.test != Is::kExists) EXPECT_TRUE(condition.value == expected.value) << filter;
}

TEST(ListDecoderTest, Restrictions) {
  using F = ContextField;
  ExpectCondition("name = \"contexts/a\"", {F::kName, "", Is::kEqual, "a"});
  ExpectCondition("name=contexts/a-b.c_d", {F::kName, "", Is::kEqual, "a-b.c_d"});
  ExpectCondition("name != \"contexts/a\"", {F::kName, "", Is::kNotEqual, "a"});
  ExpectCondition("name = \"contexts/sales-*\"", {F::kName, "", Is::kStartsWith, "sales-"});
  ExpectCondition("name = contexts/*", {F::kName, "", Is::kStartsWith, ""});
  ExpectCondition("model = models/default", {F::kModel, "", Is::kEqual, "default"});
  ExpectCondition(" target_column\t!= \"sales per day\" ",
                  {F::kTarget, "", Is::kNotEqual, "sales per day"});
  ExpectCondition(R"(description : "a \"b\" \\ c")",
                  {F::kDescription, "", Is::kContains, R"(a "b" \ c)"});
  ExpectCondition("labels.team = \"sales\"", {F::kLabel, "team", Is::kEqual, "sales"});
  ExpectCondition("labels.app/k-1.x_y!=\"\"", {F::kLabel, "app/k-1.x_y", Is::kNotEqual, ""});
  ExpectCondition("labels.team:*", {F::kLabel, "team", Is::kExists, ""});
  ExpectCondition("row_count >= 1000", {F::kRows, "", Is::kGreaterOrEqual, int64_t{1000}});
  ExpectCondition("feature_count < 3", {F::kFeatures, "", Is::kLess, int64_t{3}});
  ExpectCondition("dataset_bytes > -1", {F::kDatasetBytes, "", Is::kGreater, int64_t{-1}});
  ExpectCondition("create_time <= \"1970-01-01T01:00:00+01:00\"",
                  {F::kCreated, "", Is::kLessOrEqual, absl::UnixEpoch()});
  ExpectCondition("update_time = 1970-01-01T00:00:00.5Z",
                  {F::kUpdated, "", Is::kEqual, absl::FromUnixMillis(500)});
  ExpectCondition("last_use_time<1970-01-01T00:00:00Z",
                  {F::kLastUsed, "", Is::kLess, absl::UnixEpoch()});
  ExpectCondition("expire_time > 1970-01-01T00:00:00Z",
                  {F::kExpires, "", Is::kGreater, absl::UnixEpoch()});
}

TEST(ListDecoderTest, ConjunctionsAndOthers) {
  EXPECT_THAT(Decode("")->conditions, IsEmpty());
  EXPECT_THAT(Decode(" \n ")->conditions, IsEmpty());
  const ContextQuery query =
      Decode("labels.team = \"a AND b\" AND row_count > 1  AND\n row_count < 9").value();
  ASSERT_EQ(query.conditions.size(), 3u);
  EXPECT_EQ(std::get<std::string>(query.conditions[0].value), "a AND b");
  EXPECT_EQ(query.conditions[2].test, Is::kLess);
  EXPECT_FALSE(query.with_columns);
}

TEST(ListDecoderTest, InvalidFilters) {
  const struct {
    const char* filter;
    const char* message;
  } cases[] = {
      {"rows > 1", "at byte 0: expected a field"},
      {"AND", "at byte 0: expected a field"},
      {"(row_count > 1)", "at byte 0: expected a field"},
      {"NOT row_count > 1", "at byte 0: expected a field"},
      {"labels = 1", "at byte 6: expected the key"},
      {"labels.Team = 1", "at byte 7: expected the key"},
      {"row_count", "at byte 9: expected one of"},
      {"row_count ~ 1", "at byte 10: expected one of"},
      {"row_count >", "at byte 11: expected a value"},
      {"row_count > x", "at byte 12: row_count requires an integer"},
      {"row_count > 1.5", "at byte 12: row_count requires an integer"},
      {"row_count > 99999999999999999999", "row_count requires an integer"},
      {"row_count:1", "at byte 9: : does not apply to row_count"},
      {"row_count > 1 row_count > 2", "at byte 14: expected AND"},
      {"row_count > 1 OR row_count > 2", "at byte 14: expected AND"},
      {"row_count > 1 AND", "at byte 17: expected a restriction after AND"},
      {"row_count > 1 and row_count > 2", "at byte 14: expected AND"},
      {"name = a", "at byte 7: name requires \"contexts/{context_id}\""},
      {"name != \"contexts/a*\"", "name requires"},
      {"name = \"contexts/A\"", "name requires"},
      {"name < \"contexts/a\"", "at byte 5: < does not apply to name"},
      {"model = default", "model requires \"models/{model_id}\""},
      {"description = \"x\"", "at byte 12: = does not apply to description"},
      {"labels.team < \"x\"", "at byte 12: < does not apply to labels"},
      {"labels.team : \"x\"", "labels requires * after :"},
      {"create_time > \"2026-01-01\"", "create_time requires a time such as"},
      {"create_time > infinite-future", "create_time requires a time such as"},
      {"create_time : 2026-01-01T00:00:00Z", ": does not apply to create_time"},
      {"target_column = \"x", "at byte 16: the quote is not closed"},
      {"target_column = \"x\\", "at byte 16: the quote is not closed"},
      {"target_column = \"\\n\"", "at byte 17: a backslash must precede"},
  };
  for (const auto& c : cases) {
    const absl::Status status = Decode(c.filter).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.filter;
    EXPECT_EQ(ErrorField(status), "filter") << c.filter;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.filter;
  }
}

TEST(ListDecoderTest, LimitsOfFilters) {
  std::string filter = "row_count > 1";
  for (int i = 1; i < 16; ++i) filter += " AND row_count > 1";
  EXPECT_EQ(Decode(filter)->conditions.size(), 16u);
  const absl::Status many = Decode(filter + " AND row_count > 1").status();
  EXPECT_EQ(ErrorField(many), "filter");
  EXPECT_THAT(std::string(many.message()), HasSubstr("more than 16 restrictions"));
  EXPECT_TRUE(Decode(std::string(4096, ' ')).ok());
  const absl::Status large = Decode(std::string(4097, ' ')).status();
  EXPECT_EQ(ErrorField(large), "filter");
  EXPECT_THAT(std::string(large.message()), HasSubstr("4097 bytes; the limit is 4096"));
}

TEST(ListDecoderTest, Orders) {
  EXPECT_EQ(Decode("")->order, ContextField::kName);
  EXPECT_FALSE(Decode("")->descending);
  EXPECT_EQ(Decode("", "create_time")->order, ContextField::kCreated);
  EXPECT_EQ(Decode("", " dataset_bytes  desc ")->order, ContextField::kDatasetBytes);
  EXPECT_TRUE(Decode("", " dataset_bytes  desc ")->descending);
  for (const char* bad : {"rows", "model", "description", "labels.team", "name asc", "name DESC",
                          "name, row_count", "name desc desc"}) {
    const absl::Status status = Decode("", bad).status();
    EXPECT_EQ(ErrorField(status), "order_by") << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("last_use_time")) << bad;
  }
}

TEST(ListDecoderTest, Views) {
  v1::ListContextsRequest request;
  EXPECT_FALSE(DecodeContextQuery(request)->with_columns);
  request.set_view(v1::CONTEXT_VIEW_BASIC);
  EXPECT_FALSE(DecodeContextQuery(request)->with_columns);
  request.set_view(v1::CONTEXT_VIEW_FULL);
  EXPECT_TRUE(DecodeContextQuery(request)->with_columns);
  request.set_view(static_cast<v1::ContextView>(7));
  EXPECT_EQ(ErrorField(DecodeContextQuery(request).status()), "view");
}

}  // namespace
}  // namespace chorale
