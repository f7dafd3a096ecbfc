// chorale append, and warm --encode-anew
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/client/cli/command_line_fixture.h"
#include "tests/client/cpp/server_errors.h"
#include "tests/support/eventually.h"

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

// The rows may have been stored, so repeating the same command could store them twice.
TEST_F(AppendTest, AnUnknownOutcomeNamesTheWayToRepeatTheCommand) {
  const std::string repeat = "the rows may have been appended: repeat the command with --first-row";
  const auto fail = [&](std::vector<grpc::Status> statuses, int exit_code, const std::string& what,
                        std::vector<std::string> more = {"--retries=0"}) {
    std::vector<std::string> command = {"append", "houses", Path("new.csv")};
    command.insert(command.end(), more.begin(), more.end());
    statuses.insert(statuses.begin(), grpc::Status::OK);  // of GetContext
    server_.service().FailNext(statuses);
    ExpectFailure(command, exit_code, what);
  };
  const grpc::Status lost(grpc::StatusCode::UNAVAILABLE, "connection reset");
  const grpc::Status draining =
      WithReason(grpc::StatusCode::UNAVAILABLE, "draining", "DRAINING", "chorale");
  fail({lost}, 1, repeat + " 4\n");
  fail({lost, draining}, 1, repeat + " 4\n", {"--retries=1"});
  fail({grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "late")}, 1,
       repeat + " 3 and a longer --timeout\n", {"--first-row=3"});
  // The server has rejected these calls.
  fail({draining}, 5, "draining\n");
  fail({lost}, 5, "connection reset\n", {"--retries=0", "--validate-only"});

  server_.service().set_append_without_response(true);
  Program program = Start({"append", "houses", Path("new.csv")});
  ASSERT_TRUE(Eventually([&] { return server_.service().Chunks("houses").size() == 2; }));
  program.Signal(SIGINT);
  const ProgramResult result = program.Wait();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.err, HasSubstr("cancelled; " + repeat + " 4\n"));
  server_.service().set_append_without_response(false);
  EXPECT_THAT(Good({"append", "houses", Path("new.csv"), "--first-row=4"}).err,
              HasSubstr("already has these rows"));
}

TEST_F(AppendTest, OptionsAreSent) {
  ExpectFailure({"append", "houses", Path("new.csv"), "--etag=another"}, 4, "another etag");
  const ProgramResult valid = Good({"append", "houses", Path("new.csv"), "--validate-only"});
  EXPECT_THAT(valid.err, HasSubstr("the rows are valid and were not appended; while they are "
                                   "encoded, the whole context needs 4096 bytes of device "
                                   "memory\n"));
  EXPECT_THAT(Column(Good({"ls"}).out, "rows"), ElementsAre("4"));
  EXPECT_TRUE(server_.service().last_append().validate_only());
}

TEST_F(AppendTest, RowsThatAreAppendedDuringACommandChangeTheContent) {
  server_.service().FailNext(
      {grpc::Status::OK, WithReason(grpc::StatusCode::FAILED_PRECONDITION, "has another digest",
                                    "SOURCE_CHANGED", "chorale")});
  Write("queries.csv", "zip,size\n03,50\n");
  ExpectFailure({"predict", "houses", Path("queries.csv")}, 4, "has another digest");
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
  ExpectFailure({"append", "houses", Path("partly.csv")}, 2, "partly.csv: line 3, column 'price'");
  ExpectFailure({"append", "nowhere", Path("new.csv")}, 3, "");
  for (const char* number : {"-1", "x", "0x10", "1.5", "9223372036854775808"}) {
    ExpectFailure({"append", "houses", Path("new.csv"), absl::StrCat("--first-row=", number)}, 2,
                  absl::StrCat("--first-row: must be an integer from 0 to 2^63 - 1: ", number));
  }
  Good({"append", "houses", Path("new.csv"), "--first-row=04", "--validate-only"});
  Good({"sample", "houses", Path("rows.csv"), "--seed=010"});
  EXPECT_EQ(server_.service().last_sample().seed(), 10u) << "decimal, not octal";
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
