// 'chorale predict': output that grows, commands that end early, and --first-row.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/client/cli/command_line_fixture.h"
#include "tests/support/eventually.h"

namespace chorale::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kManyRows = 2500;  // three requests

class PredictDeliveryTest : public CommandLineTest {
 protected:
  PredictDeliveryTest() {
    RegisterHouses();
    std::string many = "zip,size\n";
    std::string given = "zip,size,price,store\n";  // each tenth row has a value
    for (int row = 0; row < kManyRows; ++row) {
      absl::StrAppend(&many, "a", row % 7, ",", row, "\n");
      absl::StrAppend(&given, "a", row % 7, ",", row, ",", row % 10 == 0 ? "1" : "", ",s", row % 3,
                      "\n");
    }
    Write("many.csv", many);
    Write("given.csv", given);
  }

  std::vector<std::string> Command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"predict", "houses", Path("many.csv"), "--quantiles=0.9",
                                      "--retries=0"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<std::string> GivenCommand(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = Command(more);
    words[2] = Path("given.csv");
    words.emplace_back("--given");
    return words;
  }

  // Makes the next command end after some requests of Predict.
  void EndAfter(int requests, grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE) {
    std::vector<grpc::Status> statuses(1 + requests);  // the first is that of GetContext
    statuses.emplace_back(code, "broken");
    server_.service().FailNext(std::move(statuses));
  }

  // Returns the words of the command that a program has written to standard error, without the
  // program; none if it has written none.
  static std::vector<std::string> CommandIn(const std::string& err) {
    for (absl::string_view line : absl::StrSplit(err, '\n')) {
      if (!absl::ConsumePrefix(&line, absl::StrCat("chorale: ", CHORALE_PROGRAM, " "))) continue;
      return absl::StrSplit(line, ' ');
    }
    return {};
  }

  // Returns the lines from `first` on, and before `last`.
  static std::string Lines(const std::string& text, size_t first, size_t last) {
    const std::vector<std::string> lines = absl::StrSplit(text, '\n');
    return absl::StrCat(
        absl::StrJoin(lines.begin() + static_cast<int64_t>(first),
                      lines.begin() + static_cast<int64_t>(std::min(last, lines.size() - 1)), "\n"),
        "\n");
  }
};

TEST_F(PredictDeliveryTest, FirstRow) {
  const std::string all = Good(Command({"--mixture"})).out;
  EXPECT_EQ(Good(Command({"--mixture", "--first-row=2100"})).out,
            Lines(all, 0, 1) + Lines(all, 2101, kManyRows + 1));
  const auto rows = nlohmann::json::parse(Good(Command({"--first-row=2499", "--format=json"})).out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["row"], 2499);
  ExpectFailure(Command({"--first-row=2500"}), 2,
                absl::StrCat("--first-row: 2500 exceeds the last row of '", Path("many.csv"),
                             "', which is 2499"));
  ExpectFailure(Command({"--first-row=-1"}), 2, "--first-row");
  Write("last.csv", "zip,size,price\na1,1,\na2,2,5\n");
  ExpectFailure({"predict", "houses", Path("last.csv"), "--given", "--first-row=1"}, 2,
                "from 1 on have a value");
}

TEST_F(PredictDeliveryTest, TheCommandThatGoesOnCompletesStandardOutput) {
  const std::string all = Good(Command()).out;
  EndAfter(2);
  const ProgramResult first = RunProgram(Command());
  EXPECT_EQ(first.exit_code, 5) << first.err;
  EXPECT_TRUE(first.out == Lines(all, 0, 2049));
  EXPECT_THAT(first.err,
              HasSubstr("2048 of 2500 rows were written to standard output; this command predicts "
                        "the others, to append to this output:\n"));
  const std::vector<std::string> words = CommandIn(first.err);
  EXPECT_THAT(absl::StrJoin(words, " "), EndsWith(" --first-row 2048 --append"));
  EXPECT_TRUE(first.out + Good(words).out == all);
}

TEST_F(PredictDeliveryTest, TheCommandThatGoesOnCompletesTheFile) {
  const std::string all = Good(Command()).out;
  Write("out.csv", "precious");
  EndAfter(1);
  ProgramResult result = RunProgram(Command({"--output", Path("out.csv")}));
  EXPECT_THAT(result.err, AllOf(HasSubstr(absl::StrCat("written to ", Path("out.csv.partial"))),
                                HasSubstr(", and completes the file:\n")));
  EXPECT_EQ(Read("out.csv"), "precious");
  EXPECT_TRUE(Read("out.csv.partial") == Lines(all, 0, 1025));
  EndAfter(1);
  result = RunProgram(CommandIn(result.err));
  EXPECT_THAT(result.err, HasSubstr(" --first-row 2048 --append"));
  const std::vector<std::string> words = CommandIn(result.err);
  Good(words);
  EXPECT_TRUE(Read("out.csv") == all);
  EXPECT_FALSE(std::filesystem::exists(Path("out.csv.partial")));
  ExpectFailure(words, 2, "--append: cannot read");
}

// All known values remain known, also those of the rows that are written.
TEST_F(PredictDeliveryTest, KnownValuesRemainKnown) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>(), {"--group-by=store"}, {"--local-rows=3000"}}) {
    const std::string all = Good(GivenCommand(more)).out;
    EXPECT_EQ(Column(all, "row").size(), 2250u);
    EndAfter(2);
    const ProgramResult first = RunProgram(GivenCommand(more));
    EXPECT_TRUE(absl::StartsWith(all, first.out));
    EXPECT_GT(Column(first.out, "row").size(), 0u);
    const std::vector<std::string> words = CommandIn(first.err);
    EXPECT_TRUE(first.out + Good(words).out == all) << absl::StrJoin(more, " ");
  }
}

// Groups whose rows are not adjacent arrive in another order than that of the file.
TEST_F(PredictDeliveryTest, RowsOfGroupsAreInTheOrderOfTheFile) {
  const std::vector<std::string> command = GivenCommand({"--group-by=store"});
  const std::vector<std::string> rows = Column(Good(command).out, "row");
  ASSERT_EQ(rows.size(), 2250u);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::stoi(a) < std::stoi(b);
  }));
  EndAfter(2);  // two of three groups, so that only the rows before the first of the third remain
  const ProgramResult first = RunProgram(command);
  EXPECT_THAT(Column(first.out, "row"), ElementsAre("1"));
  EXPECT_THAT(first.err, HasSubstr(" --first-row 2 --append"));
  ExpectFailure(GivenCommand({"--group-by=store", "--local-rows=3000", "--first-row=2"}), 2,
                "--first-row: is not available with --local-rows and --group-by");
}

TEST_F(PredictDeliveryTest, JsonHasTheCompleteRows) {
  const auto all = nlohmann::json::parse(Good(Command({"--format=json"})).out);
  EndAfter(2);
  const ProgramResult result = RunProgram(Command({"--format=json", "--output", Path("out.json")}));
  EXPECT_THAT(result.err, AllOf(HasSubstr("2048 of 2500 rows"), Not(HasSubstr("--append"))));
  auto joined = nlohmann::json::parse(Read("out.json.partial"));
  Good(CommandIn(result.err));
  const auto others = nlohmann::json::parse(Read("out.json"));
  joined.insert(joined.end(), others.begin(), others.end());
  EXPECT_TRUE(joined == all);
  ExpectFailure(Command({"--first-row=2048", "--append", "--format=json"}), 2, "requires CSV");
}

TEST_F(PredictDeliveryTest, ATableHasTheCompleteRows) {
  EndAfter(2);
  const ProgramResult result = RunProgram(Command({"--format=table"}));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2049);
  EXPECT_THAT(result.err, HasSubstr(" --first-row 2048"));
}

TEST_F(PredictDeliveryTest, RowsAreWrittenAsTheyCome) {
  server_.service().set_delay(absl::Milliseconds(500));
  Program program = Start(Command({"--output", Path("out.csv")}));
  EXPECT_TRUE(Eventually([&] {
    if (!std::filesystem::exists(Path("out.csv.partial"))) return false;
    const std::string written = Read("out.csv.partial");
    return std::count(written.begin(), written.end(), '\n') >= 1025;
  }));
  program.Signal(SIGINT);
  const ProgramResult result = program.Wait();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.err, HasSubstr("rows were written to"));
  server_.service().set_delay(absl::ZeroDuration());
  Good(CommandIn(result.err));
  EXPECT_TRUE(Read("out.csv") == Good(Command()).out);
}

// The rows of another table would not belong to the same output.
TEST_F(PredictDeliveryTest, SomeErrorsCannotBeContinued) {
  EndAfter(2, grpc::StatusCode::DATA_LOSS);
  const ProgramResult result = RunProgram(Command());
  EXPECT_THAT(result.err, HasSubstr("2048 of 2500 rows were written to standard output\n"));
  EXPECT_THAT(CommandIn(result.err), IsEmpty());
}

TEST_F(PredictDeliveryTest, AFailureBeforeTheFirstRowLeavesThePartialFile) {
  Write("out.csv.partial", "precious");
  EndAfter(0);
  const ProgramResult result = RunProgram(Command({"--output", Path("out.csv")}));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, Not(HasSubstr("--first-row")));
  EXPECT_EQ(Read("out.csv.partial"), "precious");
}

TEST_F(PredictDeliveryTest, AppendRequiresTheRowBefore) {
  Write("out.csv.partial", "row,mean,sd\n3,0,1\n");
  ExpectFailure(Command({"--first-row=5", "--append", "--output", Path("out.csv")}), 2,
                "it must belong to row 4, the last row to predict before --first-row");
  EXPECT_EQ(Read("out.csv.partial"), "row,mean,sd\n3,0,1\n");
  ExpectFailure(Command({"--append"}), 2, "--first-row");
  ExpectFailure(Command({"--append", "--first-row=0"}), 2, "omit --append");
  // Row 10 has a value.
  Write("out.csv.partial", "row,mean,sd\n9,0,1\n");
  Good(GivenCommand({"--first-row=11", "--append", "--output", Path("out.csv")}));
  EXPECT_THAT(Read("out.csv"), StartsWith("row,mean,sd\n9,0,1\n11,"));
}

TEST_F(PredictDeliveryTest, AnOutputThatCannotBeWrittenEndsTheCall) {
  const int calls = server_.service().call_count();
  const ProgramResult result = RunProgram(Command({"--output", "/dev/full"}));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("cannot write to /dev/full"), Not(HasSubstr("--first-row"))));
  EXPECT_EQ(server_.service().call_count(), calls + 2);
}

}  // namespace
}  // namespace chorale::client
