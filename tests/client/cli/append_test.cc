// chorale append, and warm --encode-anew
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/client/cli/command_line_fixture.h"
#include "tests/client/cpp/server_errors.h"

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class AppendTest : public CommandLineTest {
 protected:
  AppendTest() {
    RegisterHouses();  // 4 rows with size, zip and price
    Write("new.csv", "price,zip,size,color\n500,03,50,red\n600,,60,blue\n");
  }
};

TEST_F(AppendTest, SendsTheColumnsOfTheContextAndItsNumberOfRows) {
  const ProgramResult result = Good({"append", "houses", Path("new.csv"), "--format=json"});
  EXPECT_THAT(result.err, HasSubstr("2 rows were appended to context 'houses'\n"));
  EXPECT_THAT(result.err, HasSubstr("ignored columns"));
  EXPECT_THAT(result.err, HasSubstr("color"));
  const auto context = nlohmann::json::parse(result.out);
  EXPECT_EQ(context.at("rows"), 6);
  EXPECT_EQ(context.at("appended_rows"), 2);
  const v1::AppendRowsRequest request = server_.service().last_append();
  EXPECT_EQ(request.first_row(), 4);
  ASSERT_EQ(request.rows().columns_size(), 3);
  EXPECT_EQ(request.rows().columns(0).name(), "size");
  EXPECT_THAT(request.rows().columns(0).strings().values(), ElementsAre("50", "60"));
  EXPECT_THAT(request.rows().columns(1).strings().values(), ElementsAre("03", ""));
  EXPECT_EQ(request.rows().columns(2).name(), "price");
  EXPECT_THAT(request.rows().columns(2).numeric().values(), ElementsAre(500, 600));

  EXPECT_THAT(Column(Good({"ls"}).out, "appended_rows"), ElementsAre("2"));
  EXPECT_THAT(Good({"show", "houses", "--format=table"}).out,
              HasSubstr("appended rows, not yet encoded anew: 2\n"));
}

TEST_F(AppendTest, CanBeRepeatedWithTheFirstRow) {
  Good({"append", "houses", Path("new.csv"), "--first-row=4"});
  const ProgramResult again = Good({"append", "houses", Path("new.csv"), "--first-row", "4"});
  EXPECT_THAT(again.err, HasSubstr("context 'houses' already has these rows\n"));
  EXPECT_THAT(Column(again.out, "rows"), ElementsAre("6"));
  ExpectFailure({"append", "houses", Path("new.csv"), "--first-row=5"}, 4,
                "another number of rows");
  // Without it, the rows are appended to those that the context has now.
  EXPECT_THAT(Column(Good({"append", "houses", Path("new.csv")}).out, "rows"), ElementsAre("8"));
}

TEST_F(AppendTest, OptionsAreSent) {
  ExpectFailure({"append", "houses", Path("new.csv"), "--etag=another"}, 4, "another etag");
  const ProgramResult valid = Good({"append", "houses", Path("new.csv"), "--validate-only"});
  EXPECT_THAT(valid.err, HasSubstr("the rows are valid and were not appended; encoding them needs "
                                   "4096 bytes of device memory"));
  EXPECT_THAT(Column(Good({"ls"}).out, "rows"), ElementsAre("4"));
  EXPECT_TRUE(server_.service().last_append().validate_only());
}

TEST_F(AppendTest, RowsWithoutATargetAreDroppedOnRequest) {
  Write("gaps.csv", "price,zip,size\n500,03,50\nNA,04,60\n");
  ExpectFailure({"append", "houses", Path("gaps.csv")}, 2,
                "gaps.csv: line 3, column 'price': the value is missing");
  Good({"append", "houses", Path("gaps.csv"), "--drop-missing-targets"});
  EXPECT_EQ(server_.service().last_append().missing_targets(),
            v1::ContextSpec::MISSING_TARGETS_DROP);
}

TEST_F(AppendTest, InvalidFilesAreRejectedWithTheirPlace) {
  Write("text.csv", "price,zip,size\n500,03,50\nmany,04,60\n");
  ExpectFailure({"append", "houses", Path("text.csv")}, 2, "text.csv: line 3, column 'price'");
  Write("less.csv", "price,zip\n500,03\n");
  ExpectFailure({"append", "houses", Path("less.csv")}, 2, "missing column 'size'");
  ExpectFailure({"append", "houses", Path("rows.csv")}, 2, "rows.csv: line 3, column 'price'");
  ExpectFailure({"append", "nowhere", Path("new.csv")}, 3, "");
  ExpectFailure({"append", "houses", Path("new.csv"), "--first-row=-1"}, 2, "--first-row");
  server_.service().FailNext(
      {grpc::Status::OK,
       WithBadField("bad", "rows.columns[0].strings.values[1]", "is not a number")});
  ExpectFailure({"append", "houses", Path("new.csv")}, 2, "new.csv: line 3: bad");
}

TEST_F(AppendTest, ContextsAreEncodedAnew) {
  Good({"append", "houses", Path("new.csv")});
  EXPECT_THAT(Column(Good({"warm", "houses"}).out, "appended_rows"), ElementsAre("2"));
  EXPECT_THAT(Column(Good({"warm", "houses", "--encode-anew"}).out, "appended_rows"),
              ElementsAre("0"));
  EXPECT_THAT(Good({"show", "houses", "--format=table"}).out, Not(HasSubstr("appended rows")));
}

}  // namespace
}  // namespace chorale::client
