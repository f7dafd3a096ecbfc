// chorale summarize
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/client/cli/command_line_fixture.h"

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The scores of the rows are 3, 4, 6 and 6.
class SummarizeTest : public CommandLineTest {
 protected:
  SummarizeTest() {
    RegisterHouses();
    Write("plain.csv", "zip,size,store\na1,1,y\na2,2,x\nb77,3,x\nc1,4,y\n");
    // The values of the rows 0 and 2 are known.
    Write("given.csv", "zip,size,price,store\na1,1,10,y\na2,2,,x\nb77,3,1000,x\nc1,4,,y\n");
  }

  std::vector<std::string> Command(const std::string& file,
                                   const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = {"summarize", "houses", Path(file), "--paths=2", "--seed=1"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
};

TEST_F(SummarizeTest, WritesALineForEachRow) {
  const ProgramResult result = Good(Command("plain.csv", {"--quantiles=0.25,0.5"}));
  EXPECT_THAT(Column(result.out, "quantity"), ElementsAre("price", "price", "price", "price"));
  EXPECT_THAT(Column(result.out, "row"), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(Column(result.out, "mean"),
              ElementsAre("4.00048828125", "5.00048828125", "7.00048828125", "7.00048828125"));
  EXPECT_EQ(Column(result.out, "mean_error")[0], "0.250030517578125");
  EXPECT_EQ(Column(result.out, "sd")[0], "1.0001220703125");
  EXPECT_EQ(Column(result.out, "q0.25")[0], "4.25048828125");
  EXPECT_EQ(Column(result.out, "q0.5")[0], "4.50048828125");
  EXPECT_THAT(result.err, HasSubstr("seed 1"));
  const v1::SummarizeRequest sent = server_.service().last_summarize();
  EXPECT_EQ(sent.path_count(), 2);
  EXPECT_EQ(sent.seed(), 1u);
  EXPECT_THAT(sent.functionals(), IsEmpty());
  EXPECT_FALSE(sent.expected_source().context_digest().empty());
  const std::string header = Good(Command("plain.csv")).out;
  EXPECT_THAT(header, HasSubstr("row,mean,mean_error,sd,q0.05,q0.25,q0.5,q0.75,q0.95\n"));
}

TEST_F(SummarizeTest, SendsTheOptions) {
  Good(Command("plain.csv", {"--order=random", "--wrap", "--no-snap", "--local-rows=2",
                             "--sampling=sobol", "--estimator=values"}));
  const v1::SummarizeRequest sent = server_.service().last_summarize();
  EXPECT_EQ(sent.order(), v1::SampleRequest::ORDER_RANDOM_PER_PATH);
  EXPECT_EQ(sent.beyond_buffer(), v1::BEYOND_BUFFER_WRAP);
  EXPECT_EQ(sent.snapping(), v1::SNAPPING_OFF);
  EXPECT_EQ(sent.sampling(), v1::SampleRequest::SAMPLING_SOBOL);
  EXPECT_EQ(sent.estimator(), v1::SummarizeRequest::ESTIMATOR_VALUES);
  EXPECT_EQ(sent.local_row_count(), 2);
}

// The fake server stops after half of the paths.
TEST_F(SummarizeTest, TargetErrors) {
  const ProgramResult result =
      Good({"summarize", "houses", Path("plain.csv"), "--paths=8", "--target-mean-error=0.5",
            "--target-quantile-error", "2", "--functional=sum:mean_error=3:quantile_error=4"});
  EXPECT_THAT(result.err, HasSubstr("4 of 8 paths\n"));
  const v1::SummarizeRequest sent = server_.service().last_summarize();
  EXPECT_EQ(sent.target_mean_error(), 0.5);
  EXPECT_EQ(sent.target_quantile_error(), 2);
  EXPECT_EQ(sent.functionals(0).target_mean_error(), 3);
  EXPECT_EQ(sent.functionals(0).target_quantile_error(), 4);
  server_.service().set_summary_fault([](auto* r) { r->set_path_count(2); });
  EXPECT_THAT(Good(Command("plain.csv", {"--functional=sum:mean_error=3"})).err,
              HasSubstr("2 of 2 paths; errors may exceed their targets\n"));
  EXPECT_THAT(Good(Command("plain.csv")).err, Not(HasSubstr("of 2 paths")));
  for (const char* const bad : {"--target-mean-error=0", "--target-quantile-error=-1",
                                "--target-mean-error=x", "--target-mean-error=nan"}) {
    ExpectFailure(Command("plain.csv", {bad}), 2, "-error");
  }
}

TEST_F(SummarizeTest, FunctionalsFollowTheRows) {
  const ProgramResult result = Good(Command(
      "plain.csv", {"--quantiles=0.5", "--functional=sum:weights=1,2:rows=3,0", "--functional",
                    "any:below=-2.5", "--functional=argmax:rows=1-3", "--format=json"}));
  const auto lines = nlohmann::json::parse(result.out);
  ASSERT_EQ(lines.size(), 4u + 2u + 3u);
  EXPECT_EQ(lines[4].at("quantity"), "sum:weights=1,2:rows=3,0");
  EXPECT_TRUE(lines[4].at("row").is_null());
  EXPECT_EQ(lines[4].at("mean"), 2);
  EXPECT_EQ(lines[4].at("q0.5"), 2.5);
  EXPECT_EQ(lines[5].at("mean"), 1.5);  // four rows and the threshold
  EXPECT_EQ(lines[6].at("quantity"), "argmax:rows=1-3");
  EXPECT_EQ(lines[8].at("row"), 3);
  EXPECT_EQ(lines[8].at("mean"), 3);
  EXPECT_TRUE(lines[8].at("q0.5").is_null());
  const v1::SummarizeRequest sent = server_.service().last_summarize();
  ASSERT_EQ(sent.functionals_size(), 3);
  EXPECT_EQ(sent.functionals(0).type(), v1::Functional::TYPE_SUM);
  EXPECT_THAT(sent.functionals(0).rows(), ElementsAre(3, 0));
  EXPECT_THAT(sent.functionals(0).weights(), ElementsAre(1, 2));
  EXPECT_EQ(sent.functionals(1).threshold(), -2.5);
  EXPECT_TRUE(sent.functionals(1).below());
  EXPECT_THAT(sent.functionals(2).rows(), ElementsAre(1, 2, 3));
}

// Requests have the rows 0 and 3, and then 1 and 2.
TEST_F(SummarizeTest, GroupsAndKnownValues) {
  const ProgramResult result = Good(
      Command("given.csv", {"--given", "--group-by=store", "--quantiles=0.5", "--functional=sum",
                            "--functional=rank:rows=1-3", "--functional=count:above=1",
                            "--functional=sum_beyond:below=9:weights=1,2,3,4"}));
  EXPECT_THAT(
      Column(result.out, "quantity"),
      ElementsAre("price", "price", "sum", "sum", "rank:rows=1-3", "rank:rows=1-3", "rank:rows=1-3",
                  "count:above=1", "count:above=1", "sum_beyond:below=9:weights=1,2,3,4",
                  "sum_beyond:below=9:weights=1,2,3,4"));
  EXPECT_THAT(Column(result.out, "group"),
              ElementsAre("x", "y", "y", "x", "x", "x", "y", "y", "x", "y", "x"));
  EXPECT_THAT(Column(result.out, "row"),
              ElementsAre("1", "3", "", "", "1", "2", "3", "", "", "", ""));
  EXPECT_THAT(Column(result.out, "mean"), ElementsAre("1005.00048828125", "17.00048828125", "2",
                                                      "2", "2", "3", "1", "3", "3", "11", "11"));
  EXPECT_THAT(result.err, HasSubstr("log-density of the 2 known values: -1010"));
  const v1::SummarizeRequest sent = server_.service().last_summarize();
  EXPECT_THAT(sent.group_sizes(), ElementsAre(2, 2));
  EXPECT_THAT(sent.known().rows(), ElementsAre(0, 3));
  EXPECT_THAT(sent.functionals(1).rows(), ElementsAre(2, 3, 1));
  ExpectFailure(Command("given.csv", {"--given", "--group-by=store", "--functional=sum:rows=0"}), 2,
                "--functional: 'sum:rows=0': none of the rows belongs to the group 'x'");
}

TEST_F(SummarizeTest, InvalidFunctionals) {
  const int before = server_.service().call_count();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"total", "'total' is not a functional; the functionals are: sum, mean, max"},
      {"any", "requires above=T or below=T"},
      {"sum:above=1", "does not have a threshold"},
      {"any:above=1:below=2", "'below=2' is repeated or not an option; the options are: above=T"},
      {"any:above=x", "'x' is not a finite number"},
      {"any:above=inf", "'inf' is not a finite number"},
      {"max:weights=1", "does not have weights"},
      {"sum:weights=1,", "'' is not a finite number"},
      {"sum:rows=4", "'4' is not the number of a row, from 0 to 3"},
      {"sum:rows=-1", "'' is not the number of a row"},
      {"sum:rows=", "'' is not the number of a row"},
      {"sum:rows=2-1", "the range '2-1' is empty"},
      {"sum:rows=0-2,1", "row 1 is repeated"},
      {"sum:rows=1:rows=2", "'rows=2' is repeated"},
      {"sum:size=2", "'size=2' is repeated or not an option"},
      {"sum:mean_error=0", "the target error 0 must be more than 0"},
      {"sum:quantile_error=-1", "the target error -1 must be more than 0"},
      {"sum:mean_error=x", "'x' is not a finite number"},
      {"sum:mean_error=1:mean_error=1", "'mean_error=1' is repeated"},
      {"rank:quantile_error=1", "does not have quantiles"},
  };
  for (const auto& [spec, what] : cases) {
    ExpectFailure(Command("plain.csv", {"--functional", spec}), 2,
                  absl::StrCat("--functional: '", spec, "': ", what));
  }
  // Only the context was requested.
  EXPECT_EQ(server_.service().call_count(), before + static_cast<int>(cases.size()));
}

TEST_F(SummarizeTest, ErrorsOfTheServerNameFunctionals) {
  ExpectFailure({"summarize", "houses", Path("plain.csv"), "--paths=1"}, 2, "--paths");
  ExpectFailure(Command("plain.csv", {"--quantiles=0.5,0.5"}), 2, "0.5 is given twice");
  server_.service().FailNext(
      {grpc::Status::OK,
       grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "functionals[1].weights: has 2 entries")});
  ExpectFailure(Command("plain.csv", {"--functional=max", "--functional=sum:weights=1,2"}), 2,
                "--functional: 'sum:weights=1,2'.weights: has 2 entries");
}

TEST_F(SummarizeTest, OldServers) {
  server_.service().FailNext(
      {grpc::Status::OK, grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unknown method")});
  ExpectFailure(Command("plain.csv"), 1, "the server does not support Summarize");
}

}  // namespace
}  // namespace chorale::client
