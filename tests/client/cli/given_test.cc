// --given
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

// In partly.csv, the rows 0 and 2 have the values 10 and 1000; the score of row 1 is 4.

TEST_F(CommandLineTest, PredictionsGivenKnownValues) {
  RegisterHouses();
  const ProgramResult result = Good({"predict", "houses", Path("partly.csv"), "--given", "--wrap"});
  EXPECT_THAT(Column(result.out, "row"), ElementsAre("1"));
  EXPECT_THAT(Column(result.out, "mean"), ElementsAre("1014"));
  EXPECT_THAT(result.err, AllOf(HasSubstr("log-density of the 2 known values: -1010"),
                                Not(HasSubstr("ignored columns"))));
  EXPECT_EQ(server_.service().predict_requests().back().beyond_buffer(), v1::BEYOND_BUFFER_WRAP);
}

TEST_F(CommandLineTest, SamplesGivenKnownValues) {
  RegisterHouses();
  const std::vector<std::string> command = {"sample",    "houses",   Path("partly.csv"), "--given",
                                            "--paths=2", "--seed=1", "--log-density"};
  for (const char* order : {"given", "random"}) {
    std::vector<std::string> ordered = command;
    ordered.push_back(absl::StrCat("--order=", order));
    const ProgramResult result = Good(ordered);
    EXPECT_THAT(Column(result.out, "row"), ElementsAre("0", "1", "2", "0", "1", "2"));
    EXPECT_THAT(Column(result.out, "price"),
                ElementsAre("10", "1015", "1000", "10", "1015.0009765625", "1000"));
    EXPECT_THAT(Column(result.out, "log_density"),
                ElementsAre("", "-0.0009765625", "", "", "-1.0009765625", ""));
    if (order == std::string("random")) {
      EXPECT_THAT(Column(result.out, "step"), ElementsAre("", "0", "", "", "0", ""));
    }
    EXPECT_THAT(result.err, HasSubstr("log-density of the 2 known values: -1010"));
    ordered.push_back("--format=json");
    const auto object = nlohmann::json::parse(Good(ordered).out);
    EXPECT_EQ(object.at("known_log_density"), -1010);
    EXPECT_EQ(object.at("values").at(0), nlohmann::json({10, 1015, 1000}));
    EXPECT_EQ(object.at("log_densities").at(0), nlohmann::json({nullptr, -0.0009765625, nullptr}));
    if (object.contains("rows_by_step")) {
      EXPECT_EQ(object.at("rows_by_step"), nlohmann::json({{1}, {1}}));
    }
  }
  Good({"sample", "houses", Path("partly.csv"), "--given", "--validate-only"});
  EXPECT_THAT(server_.service().last_sample().known().rows(), ElementsAre(0, 2));
}

TEST_F(CommandLineTest, ASummaryHasTheSumWithTheKnownValues) {
  RegisterHouses();
  const ProgramResult result = Good({"sample", "houses", Path("partly.csv"), "--given", "--paths=1",
                                     "--seed=1", "--summary", "--format=csv"});
  EXPECT_THAT(Column(result.out, "mean"),
              ElementsAre("10", "1015", "1000", "2025", "675", "1015", "10"));
  EXPECT_THAT(Column(result.out, "actual"), ElementsAre("10", "", "1000", "", "", "", ""));
  // There is nothing to compare with.
  const ProgramResult table = Good({"sample", "houses", Path("partly.csv"), "--given", "--paths=1",
                                    "--summary", "--format=table"});
  EXPECT_THAT(table.out, Not(HasSubstr("Comparison")));
}

TEST_F(CommandLineTest, AnInterruptedSampleHasTheKnownValues) {
  RegisterHouses();
  server_.service().set_blocks_in_order(true);
  server_.service().set_stream_fault(StreamFault::kBreakAfterFirstBlock);
  const ProgramResult result =
      RunProgram({"sample", "houses", Path("partly.csv"), "--given", "--paths=10"});
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("4 of 10 paths were written to standard output"));
  EXPECT_EQ(Column(result.out, "price").size(), 4 * 3u);
}

TEST_F(CommandLineTest, DensitiesGivenKnownValues) {
  RegisterHouses();
  Write("offers.csv", "zip,size,price,offer\na1,1,10,\na2,2,,1010\nb77,3,1000,5\nc1,1,,1014\n");
  const std::vector<std::string> command = {"log-density", "houses", Path("offers.csv"), "--given"};
  std::vector<std::string> offers = command;
  offers.push_back("--values=offer");
  const ProgramResult result = Good(offers);
  EXPECT_THAT(Column(result.out, "log_density"), ElementsAre("-5"));
  EXPECT_THAT(result.err, HasSubstr("log-density of the 2 known values: -1010"));
  offers.push_back("--terms");
  const std::string terms = Good(offers).out;
  EXPECT_THAT(Column(terms, "row"), ElementsAre("1", "3"));
  EXPECT_THAT(Column(terms, "log_density"), ElementsAre("-4", "-1"));
  Write("y.csv", "a\n\"\"\n1014\n\"\"\n1014\n");
  std::vector<std::string> file = command;
  file.insert(file.end(), {"--values-file", Path("y.csv")});
  EXPECT_THAT(Column(Good(file).out, "log_density"), ElementsAre("-1"));
  ExpectFailure(command, 2, "--given: the values of 'price' are known");
  Write("offers.csv", "zip,size,price,offer\na1,1,10,\na2,2,,\n");
  ExpectFailure(offers, 2,
                "line 3, column 'offer': the value is missing, but a log-density "
                "requires a value in every row without a known value");
}

TEST_F(CommandLineTest, AFileWithSomeValuesMustSayWhatTheyAre) {
  RegisterHouses();
  const std::string error =
      "partly.csv: the target column 'price' has values in 2 of 3 rows: use --given";
  ExpectFailure({"predict", "houses", Path("partly.csv")}, 2, error);
  const ProgramResult result = RunProgram({"predict", "houses", Path("partly.csv")});
  EXPECT_THAT(result.err, Not(HasSubstr("ignored columns")));
  ExpectFailure({"sample", "houses", Path("partly.csv")}, 2, error);
  ExpectFailure({"sample", "houses", Path("partly.csv"), "--validate-only"}, 2, error);
  ExpectFailure({"log-density", "houses", Path("partly.csv"), "--values=size"}, 2, error);
  ExpectFailure({"log-density", "houses", Path("partly.csv")}, 2,
                "a log-density requires a value in every row; if the other values are known, use "
                "--given with --values or --values-file");
  Write("inf.csv", "zip,size,price\na1,1,inf\na2,2,\nb77,3,-1e999\n");
  ExpectFailure({"predict", "houses", Path("inf.csv")}, 2,
                "inf.csv: the target column 'price' has values in 2 of 3 rows: use --given");
  ExpectFailure({"predict", "houses", Path("inf.csv"), "--given"}, 2, "line 2, column 'price'");
  // A summary compares the samples with them.
  const ProgramResult summary = Good({"sample", "houses", Path("partly.csv"), "--summary"});
  EXPECT_THAT(summary.err, HasSubstr("partly.csv: the samples are compared with the values"));
  EXPECT_FALSE(server_.service().last_sample().has_known());
  // Columns without missing cells, without values or without numbers.
  for (const char* rows : {"a1,1,5\na2,2,6\n", "a1,1,\na2,2,\n", "a1,1,?\na2,2,unsold\n"}) {
    Write("plain.csv", absl::StrCat("zip,size,price\n", rows));
    Good({"predict", "houses", Path("plain.csv")});
    EXPECT_FALSE(server_.service().predict_requests().back().has_known());
  }
}

TEST_F(CommandLineTest, FilesWithoutRowsToPredictAreRejected) {
  RegisterHouses();
  ExpectFailure({"predict", "houses", Path("rows.csv"), "--given"}, 2,
                "--given: the target column 'price' has a value in every row");
  Write("no.csv", "zip,size\na1,1\n");
  ExpectFailure({"predict", "houses", Path("no.csv"), "--given"}, 2, "no column 'price'");
  Write("text.csv", "zip,size,price\na1,1,many\na2,2,\n");
  ExpectFailure({"sample", "houses", Path("text.csv"), "--given"}, 2, "line 2, column 'price'");
  // No known values.
  Write("none.csv", "zip,size,price\na1,1,\na2,2,-\n");
  const ProgramResult none =
      Good({"predict", "houses", Path("none.csv"), "--given", "--missing=-"});
  EXPECT_THAT(Column(none.out, "mean"), ElementsAre("3", "4"));
  EXPECT_THAT(none.err, HasSubstr("none.csv: --given: no values of 'price' are known; the results "
                                  "are unconditional"));
  EXPECT_THAT(none.err, Not(HasSubstr("log-density")));
  EXPECT_FALSE(server_.service().predict_requests().back().has_known());
}

TEST_F(CommandLineTest, ErrorsOfRequestsWithKnownValuesNameTheLine) {
  RegisterHouses();
  const std::string field = R"(rows.columns["size"].strings.values[2])";
  server_.service().FailNext({grpc::Status::OK, WithBadField(field, field, "is bad")});
  // The request has the rows 0, 2, 1.
  ExpectFailure({"predict", "houses", Path("partly.csv"), "--given"}, 2, "partly.csv: line 3: ");
  Write("offers.csv", "zip,size,price,offer\na1,1,10,\na2,2,,5\nb77,3,1000,\n");
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"predict"},
                                             {"sample"},
                                             {"sample", "--validate-only"},
                                             {"log-density", "--values=offer"}}) {
    std::vector<std::string> whole = command;
    whole.insert(whole.end(), {"houses", Path("offers.csv"), "--given"});
    const auto expect = [&](const std::string& bad, const std::string& message) {
      server_.service().FailNext({grpc::Status::OK, WithBadField(bad + ": is bad", bad, "is bad")});
      ExpectFailure(whole, 2, message);
    };
    expect("known.values[1]", "offers.csv: line 4, column 'price': is bad");
    expect("known.values[2]", "offers.csv: line 2, column 'price': is bad");  // of a second path
    expect("known.rows[0]", "offers.csv: line 2, column 'price': is bad");
    expect("known.rows", "offers.csv: --given: is bad");
    expect("values[1]", "chorale: values[1]: is bad");
  }
}

TEST_F(CommandLineTest, ASingleKnownValue) {
  RegisterHouses();
  Write("single.csv", "zip,size,price\na1,1,10\na2,2,\n");
  const ProgramResult result = Good({"predict", "houses", Path("single.csv"), "--given"});
  EXPECT_THAT(result.err, HasSubstr("log-density of the known value: -10"));
}

TEST_F(CommandLineTest, AServerThatIgnoresKnownValuesIsTooOld) {
  RegisterHouses();
  server_.service().set_ignores_known_values(true);
  for (const char* command : {"predict", "sample"}) {
    ExpectFailure({command, "houses", Path("partly.csv"), "--given"}, 1,
                  "the server does not support known values");
  }
}

}  // namespace
}  // namespace chorale::client
