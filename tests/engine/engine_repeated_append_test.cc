// Appends that are repeated, and appends to a content that the caller does not expect.
#include <string>

#include "base/error_details.h"
#include "engine/store/context_store.h"
#include "gmock/gmock.h"
#include "tests/engine/appended_rows.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class EngineRepeatedAppendTest : public AppendFixture {
 protected:
  EngineRepeatedAppendTest() { options_.max_appended_share = 1000; }  // nothing is encoded anew
};

TEST_F(EngineRepeatedAppendTest, ARepeatedCallChangesNothing) {
  StartEngine();
  Register("c");
  const std::string etag = EtagOf(Record("c"));
  const AppendRequest request{.context = "c", .first_row = 10, .etag = etag};
  ASSERT_TRUE(Append(request, NewRows(3, 5)).ok());
  const std::string now = EtagOf(Record("c"));
  const auto repeated = Append(request, NewRows(3, 5));
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_TRUE(repeated->already_appended);
  EXPECT_EQ(repeated->rows, 3);
  EXPECT_EQ(repeated->context.record.rows, 13);
  EXPECT_EQ(EtagOf(Record("c")), now);

  const auto others = Append(request, NewRows(3, 6));
  EXPECT_EQ(ErrorReasonOf(others.status()), "ROW_COUNT_MISMATCH") << "other rows were appended";
  EXPECT_THAT(std::string(others.status().message()), AllOf(HasSubstr("13"), HasSubstr("10")));
  EXPECT_EQ(ErrorReasonOf(Append(request, NewRows(2, 5)).status()), "ROW_COUNT_MISMATCH");
  EXPECT_EQ(ErrorReasonOf(Append({.context = "c", .first_row = 14}, NewRows(1, 5)).status()),
            "ROW_COUNT_MISMATCH");
  EXPECT_EQ(ErrorReasonOf(Append({.context = "c", .first_row = -1}, NewRows(1, 5)).status()),
            "ROW_COUNT_MISMATCH");
  ASSERT_TRUE(Append({.context = "c", .first_row = 13}, NewRows(3, 5)).ok());
  EXPECT_EQ(Record("c").rows, 16);
  EXPECT_EQ(ErrorReasonOf(Append(request, NewRows(3, 5)).status()), "ROW_COUNT_MISMATCH")
      << "rows were appended since";
  EXPECT_EQ(metrics_.appends, 2);
}

TEST_F(EngineRepeatedAppendTest, TheContentMustBeTheExpectedContent) {
  StartEngine();
  Register("c");
  const std::string digest = Record("c").digest;
  const AppendRequest request{.context = "c", .first_row = 10, .expected_digest = digest};
  ASSERT_TRUE(engine_
                  ->Register(kTenant, {.context = "c", .model = "", .replace = true},
                             MakeDataset(10, 7), StoreQuota())
                  .ok());
  const auto replaced = Append(request, NewRows(3, 5));
  EXPECT_EQ(ErrorReasonOf(replaced.status()), "SOURCE_CHANGED");
  EXPECT_THAT(std::string(replaced.status().message()),
              HasSubstr("it was replaced, or rows were appended or encoded anew"));
  EXPECT_EQ(Record("c").rows, 10);

  AppendRequest current = request;
  current.expected_digest = Record("c").digest;
  ASSERT_TRUE(Append(current, NewRows(3, 5)).ok());
  const auto repeated = Append(current, NewRows(3, 5));
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_TRUE(repeated->already_appended);
  current.first_row = 12;
  EXPECT_EQ(ErrorReasonOf(Append(current, NewRows(3, 5)).status()), "ROW_COUNT_MISMATCH");
}

TEST_F(EngineRepeatedAppendTest, ARepeatedCallHasTheWarningsOfTheFirst) {
  model_.config.normalize_x = Normalization::kZScore;
  StartEngine();
  Register("c", 200);
  const AppendRequest request{.context = "c", .first_row = 200};
  Table rows = NewRows(3, 5);
  rows.columns[0].numbers[1] = 1e9;
  for (const bool repeated : {false, true}) {
    const auto outcome = Append(request, rows);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->already_appended, repeated);
    ASSERT_EQ(outcome->notes.size(), 1u);
    EXPECT_EQ(outcome->notes[0].column, rows.columns[0].name);
    EXPECT_EQ(outcome->notes[0].outside_bulk, 1);
  }
}

}  // namespace
}  // namespace chorale::testing
