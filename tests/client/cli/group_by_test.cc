// --group-by
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/client/cli/command_line_fixture.h"
#include "tests/client/cpp/server_errors.h"

namespace chorale::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The scores of the rows are 3, 4, 6 and 6. Requests have the rows 0 and 3, and then 1 and 2.
class GroupByTest : public CommandLineTest {
 protected:
  GroupByTest() {
    RegisterHouses();
    Write("plain.csv", "zip,size,store\na1,1,y\na2,2,x\nb77,3,x\nc1,4,y\n");
    Write("sold.csv", "zip,size,price,store\na1,1,4,y\na2,2,5,x\nb77,3,8,x\nc1,4,10,y\n");
    // The values of the rows 0 and 2 are known.
    Write("given.csv", "zip,size,price,store\na1,1,10,y\na2,2,,x\nb77,3,1000,x\nc1,4,,y\n");
  }

  std::vector<std::string> Command(const std::string& name, const std::string& file,
                                   const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = {name, "houses", Path(file), "--group-by=store"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
};

TEST_F(GroupByTest, PredictionsAreInTheOrderOfTheFile) {
  const ProgramResult result = Good(Command("predict", "given.csv", {"--given"}));
  EXPECT_THAT(Column(result.out, "row"), ElementsAre("1", "3"));
  EXPECT_THAT(Column(result.out, "mean"), ElementsAre("1004", "16"));
  EXPECT_THAT(result.err, AllOf(HasSubstr("log-density of the 2 known values: -1010"),
                                Not(HasSubstr("ignored columns"))));
  EXPECT_THAT(server_.service().predict_requests().back().group_sizes(), ElementsAre(2, 2));
  const ProgramResult plain = Good(Command("predict", "plain.csv"));
  EXPECT_THAT(Column(plain.out, "mean"), ElementsAre("3", "4", "6", "6"));
}

TEST_F(GroupByTest, SamplesAreInTheOrderOfTheFile) {
  const std::vector<std::string> flags = {"--seed=1", "--paths=2"};
  const ProgramResult plain = Good(Command("sample", "plain.csv", flags));
  EXPECT_THAT(Column(plain.out, "row"), ElementsAre("0", "1", "2", "3", "0", "1", "2", "3"));
  EXPECT_THAT(Column(plain.out, "price"),
              ElementsAre("4", "5", "7", "7", "4.0009765625", "5.0009765625", "7.0009765625",
                          "7.0009765625"));
  EXPECT_THAT(server_.service().last_sample().group_sizes(), ElementsAre(2, 2));
  const ProgramResult random =
      Good(Command("sample", "plain.csv", {"--seed=1", "--paths=2", "--order=random"}));
  EXPECT_THAT(Column(random.out, "price"), Column(plain.out, "price"));
  // The second path begins with the second row of each group.
  EXPECT_THAT(Column(random.out, "step"), ElementsAre("0", "0", "1", "1", "1", "1", "0", "0"));
  const std::string summary =
      Good(Command("sample", "plain.csv", {"--seed=1", "--paths=1", "--summary", "--format=csv"}))
          .out;
  EXPECT_THAT(Column(summary, "mean"), ElementsAre("4", "5", "7", "7", "23", "5.75", "7", "4"));
  Good(Command("sample", "plain.csv", {"--validate-only"}));
  EXPECT_THAT(server_.service().last_sample().group_sizes(), ElementsAre(2, 2));
}

TEST_F(GroupByTest, SamplesGivenKnownValues) {
  const std::vector<std::string> flags = {"--seed=1", "--paths=1", "--given", "--log-density"};
  const ProgramResult result = Good(Command("sample", "given.csv", flags));
  EXPECT_THAT(Column(result.out, "price"), ElementsAre("10", "1005", "1000", "17"));
  const std::vector<std::string> densities = Column(result.out, "log_density");
  ASSERT_EQ(densities.size(), 4u);
  EXPECT_THAT(densities, ElementsAre("", Not(""), "", Not("")));
  EXPECT_THAT(result.err, HasSubstr("log-density of the 2 known values: -1010"));
  std::vector<std::string> json = flags;
  json.push_back("--format=json");
  const auto object = nlohmann::json::parse(Good(Command("sample", "given.csv", json)).out);
  EXPECT_EQ(object.at("groups"), nlohmann::json({"y", "x"}));
  EXPECT_EQ(object.at("known_log_density"), nlohmann::json({-10, -1000}));
  EXPECT_EQ(object.at("values").at(0), nlohmann::json({10, 1005, 1000, 17}));
}

TEST_F(GroupByTest, ALogDensityForEachGroup) {
  const std::string out = Good(Command("log-density", "sold.csv")).out;
  EXPECT_THAT(Column(out, "vector"), ElementsAre("price", "price"));
  EXPECT_THAT(Column(out, "group"), ElementsAre("y", "x"));
  EXPECT_THAT(Column(out, "log_density"), ElementsAre("-5", "-3"));
  const std::string terms = Good(Command("log-density", "sold.csv", {"--terms"})).out;
  EXPECT_THAT(Column(terms, "row"), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(Column(terms, "log_density"), ElementsAre("-1", "-1", "-2", "-4"));
  const std::string averaged = Good(Command("log-density", "sold.csv", {"--orders=4"})).out;
  EXPECT_THAT(Column(averaged, "standard_error"), ElementsAre("0.5", "0.5"));
}

TEST_F(GroupByTest, LogDensitiesGivenKnownValues) {
  Write("offers.csv",
        "zip,size,price,store,low,high\na1,1,10,y,,\na2,2,,x,1003,1000\nb77,3,1000,x,,\n"
        "c1,4,,y,14,20\n");
  const std::vector<std::string> flags = {"--given", "--values=low,high"};
  const ProgramResult result = Good(Command("log-density", "offers.csv", flags));
  EXPECT_THAT(Column(result.out, "vector"), ElementsAre("low", "low", "high", "high"));
  EXPECT_THAT(Column(result.out, "group"), ElementsAre("y", "x", "y", "x"));
  EXPECT_THAT(Column(result.out, "log_density"), ElementsAre("-2", "-1", "-4", "-4"));
  EXPECT_THAT(result.err, HasSubstr("log-density of the 2 known values: -1010"));
  const std::string terms =
      Good(Command("log-density", "offers.csv", {"--given", "--values=low,high", "--terms"})).out;
  EXPECT_THAT(Column(terms, "row"), ElementsAre("1", "3", "1", "3"));
  EXPECT_THAT(Column(terms, "log_density"), ElementsAre("-1", "-2", "-4", "-4"));
}

TEST_F(GroupByTest, FilesWithoutGroupsAreRejected) {
  ExpectFailure({"predict", "houses", Path("plain.csv"), "--group-by", ""}, 2,
                "--group-by: the name of the column is empty");
  ExpectFailure({"predict", "houses", Path("plain.csv"), "--group-by=shop"}, 2,
                "plain.csv: --group-by: no column 'shop'; the columns are: zip, size, store");
  Write("gap.csv", "zip,size,store\na1,1,y\na2,2,NA\n");
  for (const char* command : {"predict", "sample"}) {
    ExpectFailure(Command(command, "gap.csv"), 2,
                  "gap.csv: line 3, column 'store': the cell is missing");
  }
  Write("whole.csv", "zip,size,price,store\na1,1,10,y\na2,2,,x\nb77,3,1000,x\n");
  ExpectFailure(Command("sample", "whole.csv", {"--given"}), 2,
                "whole.csv: --given: all rows of the group 'y' have a value");
}

TEST_F(GroupByTest, ErrorsNameTheLine) {
  const auto fail = [this](const std::string& field) {
    server_.service().FailNext({grpc::Status::OK, WithBadField(field, field, "is bad")});
  };
  fail(R"(rows.columns["size"].strings.values[1])");
  ExpectFailure(Command("sample", "plain.csv"), 2, "plain.csv: line 5: ");
  fail(R"(rows.columns["size"].strings.values[2])");
  ExpectFailure(Command("log-density", "sold.csv"), 2, "sold.csv: line 3: ");
  // A request of Predict has the rows 0, 3, 2 and 1.
  fail(R"(rows.columns["size"].strings.values[2])");
  ExpectFailure(Command("predict", "given.csv", {"--given"}), 2, "given.csv: line 4: ");
  for (const char* command : {"predict", "sample"}) {
    fail("known.values[1]");
    ExpectFailure(Command(command, "given.csv", {"--given"}), 2,
                  "given.csv: line 4, column 'price': ");
  }
}

TEST_F(GroupByTest, AServerThatIgnoresGroupsIsTooOld) {
  server_.service().set_ignores_groups(true);
  ExpectFailure(Command("sample", "plain.csv"), 1, "the server does not support groups");
  ExpectFailure(Command("log-density", "sold.csv"), 1, "the server does not support groups");
  ExpectFailure(Command("predict", "given.csv", {"--given"}), 1,
                "the server does not support groups");
}

}  // namespace
}  // namespace chorale::client
