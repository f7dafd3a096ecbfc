// --total and --resample
#include "client/cli/known_total.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/client/cli/command_line_fixture.h"
#include "tests/client/cpp/fake_samples.h"

namespace chorale::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST(ParseTotalTest, HasFourForms) {
  const auto expect = [](const std::string& text, double lower, double upper) {
    const absl::StatusOr<Total> total = ParseTotal(text);
    ASSERT_TRUE(total.ok()) << total.status();
    EXPECT_EQ(total->lower, lower) << text;
    EXPECT_EQ(total->upper, upper) << text;
  };
  expect("120", 120, 120);
  expect("-1.5e3", -1500, -1500);
  expect("100:120", 100, 120);
  expect("-20:-10", -20, -10);
  expect(":120", -kInfinite, 120);
  expect("100:", 100, kInfinite);
  for (const char* text : {"", ":", "a", "1:b", "1:2:3", "nan", "inf", "1:inf", "120:100"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTotal(text).status())) << text;
  }
}

class KnownTotalCommandTest : public CommandLineTest {
 protected:
  KnownTotalCommandTest() {
    RegisterHouses();
    Write("plain.csv", "zip,size,store\na1,1,y\na2,2,x\nb77,3,x\nc1,4,y\n");
  }
  std::vector<std::string> Command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {"sample", "houses", Path("plain.csv"), "--seed=1"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
};

TEST_F(KnownTotalCommandTest, EachLineHasTheWeightOfItsPath) {
  const ProgramResult result = Good(Command({"--paths=3", "--total=100:120"}));
  EXPECT_THAT(server_.service().last_sample().known_totals().lower(), ElementsAre(100));
  EXPECT_THAT(server_.service().last_sample().known_totals().upper(), ElementsAre(120));
  EXPECT_THAT(Column(result.out, "log_weight"),
              ElementsAre("0", "0", "0", "0", "-1", "-1", "-1", "-1", "-2", "-2", "-2", "-2"));
  EXPECT_THAT(result.err, AllOf(HasSubstr("effective sample size 1.5 of 3 paths"),
                                HasSubstr("fewer than 100 effective paths")));
  const ProgramResult many = Good(Command({"--paths=200", "--total=:120"}));
  EXPECT_THAT(many.err, AllOf(HasSubstr("effective sample size 100 of 200 paths"),
                              Not(HasSubstr("warning"))));
  EXPECT_THAT(Good(Command({"--paths=3"})).out, Not(HasSubstr("log_weight")));
  EXPECT_FALSE(server_.service().last_sample().has_known_totals());
}

TEST_F(KnownTotalCommandTest, EachGroupHasTheTotal) {
  const std::vector<std::string> flags = {"--paths=2", "--total", "120", "--group-by=store"};
  const ProgramResult result = Good(Command(flags));
  EXPECT_THAT(server_.service().last_sample().known_totals().lower(), ElementsAre(120, 120));
  EXPECT_THAT(server_.service().last_sample().known_totals().upper(), ElementsAre(120, 120));
  EXPECT_THAT(Column(result.out, "log_weight"),
              ElementsAre("0", "-0.5", "-0.5", "0", "-1", "-1.5", "-1.5", "-1"));
  EXPECT_THAT(result.err, HasSubstr("effective sample size 1 of 2 paths in group 'y'"));
  std::vector<std::string> json = flags;
  json.push_back("--format=json");
  const auto object = nlohmann::json::parse(Good(Command(json)).out);
  EXPECT_EQ(object.at("log_weights"), nlohmann::json({{0.0, -0.5}, {-1.0, -1.5}}));
  EXPECT_EQ(object.at("effective_sample_sizes"), nlohmann::json({1.0, 1.0}));
}

TEST_F(KnownTotalCommandTest, ResampledPathsHaveNoWeights) {
  const ProgramResult result = Good(Command({"--paths=30", "--total=120", "--resample"}));
  EXPECT_THAT(result.out, Not(HasSubstr("log_weight")));
  const std::vector<std::string> plain = Column(Good(Command({"--paths=30"})).out, "price");
  const std::vector<std::string> prices = Column(result.out, "price");
  ASSERT_THAT(prices, SizeIs(plain.size()));
  // The weights are 1, 1/e and 1/e^2, in turns.
  int heaviest = 0;
  for (size_t i = 0; i < prices.size(); i += 4) {
    for (size_t path = 0; path < plain.size(); path += 12) heaviest += prices[i] == plain[path];
  }
  EXPECT_GE(heaviest, 19);
  EXPECT_LE(heaviest, 21);
}

TEST_F(KnownTotalCommandTest, ASummaryIsThatOfWeightedPaths) {
  const std::vector<std::string> flags = {"--paths=30", "--summary", "--format=csv"};
  std::vector<std::string> weighted = flags;
  weighted.push_back("--total=120");
  const std::vector<std::string> mean = Column(Good(Command(weighted)).out, "mean");
  EXPECT_NE(mean, Column(Good(Command(flags)).out, "mean"));
}

TEST_F(KnownTotalCommandTest, OptionsThatDoNotGoTogether) {
  ExpectFailure(Command({"--total=5:4"}), 2, "the lower end must come first");
  ExpectFailure(Command({"--resample"}), 2, "--total");
  ExpectFailure(Command({"--total=5", "--resample", "--first-path=2"}), 2, "--first-path");
  ExpectFailure(Command({"--total=5", "--append", "--first-path=2"}), 2, "--total");
}

TEST_F(KnownTotalCommandTest, ACommandThatEndsEarlyWritesNoPaths) {
  server_.service().set_blocks_in_order(true);
  server_.service().set_stream_fault(StreamFault::kBreakAfterFirstBlock);
  const ProgramResult result = RunProgram(Command({"--paths=30", "--total=5"}));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("no paths were written"));
}

}  // namespace
}  // namespace chorale::client
