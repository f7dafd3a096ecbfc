// 'chorale sample': some paths of a seed, output that grows, and commands that end early.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/client/cli/command_line_fixture.h"
#include "tests/support/eventually.h"

namespace chorale::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class SampleDeliveryTest : public CommandLineTest {
 protected:
  SampleDeliveryTest() { RegisterHouses(); }

  std::vector<std::string> Command(std::vector<std::string> more = {}, int paths = 10) const {
    std::vector<std::string> words = {
        "sample",   "houses",        Path("rows.csv"), absl::StrCat("--paths=", paths),
        "--seed=7", "--log-density", "--order=random"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // Makes the next calls end after the first 8 of 10 paths.
  void EndAfterEightPaths(StreamFault fault) {
    server_.service().set_blocks_in_order(true);
    server_.service().set_blocks_before_fault(2);
    server_.service().set_stream_fault(fault);
  }
  void EndNormally() { server_.service().set_stream_fault(StreamFault::kNone); }

  // Returns the words of the command that a program has written to standard error, without the
  // program.
  static std::vector<std::string> CommandIn(const std::string& err) {
    for (absl::string_view line : absl::StrSplit(err, '\n')) {
      if (!absl::ConsumePrefix(&line, absl::StrCat("chorale: ", CHORALE_PROGRAM, " "))) continue;
      return absl::StrSplit(line, ' ');
    }
    ADD_FAILURE() << err;
    return {};
  }
};

TEST_F(SampleDeliveryTest, FirstPath) {
  const std::string all = Good(Command()).out;
  const std::string some = Good(Command({"--first-path=4"}, 3)).out;
  EXPECT_EQ(server_.service().last_sample().first_path(), 4);
  std::vector<std::string> lines = absl::StrSplit(all, '\n');
  EXPECT_EQ(some,
            absl::StrCat(lines[0], "\n",
                         absl::StrJoin(lines.begin() + 1 + 4 * 3, lines.begin() + 1 + 7 * 3, "\n"),
                         "\n"));
  const auto json =
      nlohmann::json::parse(Good(Command({"--first-path=4", "--format=json"}, 3)).out);
  EXPECT_EQ(json["first_path"], 4);
  EXPECT_EQ(json["values"].size(), 3u);
  ExpectFailure({"sample", "houses", Path("rows.csv"), "--first-path=4"}, 2, "--seed");
  ExpectFailure(Command({"--first-path=-1"}), 2, "--first-path");
  ExpectFailure(Command({"--first-path=2147483648"}), 2, "--first-path");
}

// Neither the user's doing nor a reason to lose what was drawn.
TEST_F(SampleDeliveryTest, TheCommandThatGoesOnCompletesStandardOutput) {
  const std::string all = Good(Command()).out;
  for (const StreamFault fault :
       {StreamFault::kCancelAfterFirstBlock, StreamFault::kBreakAfterFirstBlock}) {
    EndAfterEightPaths(fault);
    const ProgramResult first = RunProgram(Command());
    EXPECT_EQ(first.exit_code, 5) << first.err;
    EXPECT_EQ(Column(first.out, "price").size(), 8 * 3u);
    EXPECT_THAT(first.err, HasSubstr("8 of 10 paths were written to standard output; this command "
                                     "draws the others, to append to this output:\n"));
    EndNormally();
    const std::vector<std::string> words = CommandIn(first.err);
    EXPECT_THAT(absl::StrJoin(words, " "),
                ::testing::EndsWith(" --seed 7 --first-path 8 --paths 2 --append"));
    EXPECT_EQ(first.out + Good(words).out, all);
  }
}

TEST_F(SampleDeliveryTest, TheCommandThatGoesOnCompletesTheFile) {
  const std::string all = Good(Command()).out;
  for (const bool exists : {false, true}) {
    std::filesystem::remove(Path("out.csv"));
    if (exists) Write("out.csv", "precious");
    EndAfterEightPaths(StreamFault::kBreakAfterFirstBlock);
    const ProgramResult first = RunProgram(Command({"--output", Path("out.csv")}));
    EXPECT_EQ(first.exit_code, 5);
    EXPECT_THAT(first.err, HasSubstr(absl::StrCat("written to ", Path("out.csv.partial"))));
    EXPECT_EQ(Read("out.csv"), exists ? "precious" : "");
    EXPECT_THAT(all, StartsWith(Read("out.csv.partial")));
    EXPECT_EQ(Column(Read("out.csv.partial"), "price").size(), 8 * 3u);
    EndNormally();
    const std::vector<std::string> words = CommandIn(first.err);
    Good(words);
    EXPECT_EQ(Read("out.csv"), all);
    EXPECT_FALSE(std::filesystem::exists(Path("out.csv.partial")));
    // A second time, there is nothing to continue.
    ExpectFailure(words, 2, "--append: cannot read");
  }
}

TEST_F(SampleDeliveryTest, ACommandThatGoesOnMayEndEarly) {
  const std::string all = Good(Command({}, 20)).out;
  EndAfterEightPaths(StreamFault::kBreakAfterFirstBlock);
  ProgramResult result = RunProgram(Command({"--output", Path("out.csv")}, 20));
  result = RunProgram(CommandIn(result.err));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr(" --first-path 16 --paths 4 --append"));
  EndNormally();
  Good(CommandIn(result.err));
  EXPECT_EQ(Read("out.csv"), all);
}

TEST_F(SampleDeliveryTest, WithoutASeedTheCommandHasOne) {
  EndAfterEightPaths(StreamFault::kBreakAfterFirstBlock);
  const ProgramResult result = RunProgram({"sample", "houses", Path("rows.csv"), "--paths", "10"});
  EXPECT_TRUE(server_.service().last_sample().has_seed());
  EXPECT_THAT(result.err, HasSubstr(absl::StrCat("--seed ", server_.service().last_sample().seed(),
                                                 " --first-path 8 --paths 2")));
}

TEST_F(SampleDeliveryTest, JsonHasTheCompletePaths) {
  const auto all = nlohmann::json::parse(Good(Command({"--format=json"})).out);
  EndAfterEightPaths(StreamFault::kBreakAfterFirstBlock);
  const ProgramResult result = RunProgram(Command({"--format=json", "--output", Path("out.json")}));
  EXPECT_THAT(result.err, AllOf(HasSubstr("8 of 10 paths"), Not(HasSubstr("--append"))));
  const auto first = nlohmann::json::parse(Read("out.json.partial"));
  EndNormally();
  Good(CommandIn(result.err));
  const auto others = nlohmann::json::parse(Read("out.json"));
  for (const char* name : {"values", "log_densities", "rows_by_step"}) {
    auto joined = first[name];
    joined.insert(joined.end(), others[name].begin(), others[name].end());
    EXPECT_EQ(joined, all[name]) << name;
  }
  EXPECT_EQ(others["first_path"], 8);
  ExpectFailure(Command({"--first-path=8", "--append", "--format=json"}), 2, "requires CSV");
}

TEST_F(SampleDeliveryTest, GroupsAreCompleteTogether) {
  const std::vector<std::string> command = Command({"--group-by=zip"});
  const std::string all = Good(command).out;
  server_.service().set_blocks_in_order(true);
  server_.service().set_blocks_before_fault(7);  // of 3 groups with 3 tiles each
  server_.service().set_stream_fault(StreamFault::kBreakAfterFirstBlock);
  const ProgramResult first = RunProgram(command);
  EXPECT_EQ(Column(first.out, "price").size(), 4 * 3u);
  EndNormally();
  EXPECT_EQ(first.out + Good(CommandIn(first.err)).out, all);
}

TEST_F(SampleDeliveryTest, PathsAreWrittenAsTheyCome) {
  EndAfterEightPaths(StreamFault::kHang);
  Program program = Start(Command({"--output", Path("out.csv")}));
  EXPECT_TRUE(Eventually([&] {
    if (!std::filesystem::exists(Path("out.csv.partial"))) return false;
    const std::string written = Read("out.csv.partial");  // may end within a line
    return std::count(written.begin(), written.end(), '\n') == 1 + 8 * 3;
  }));
  program.Signal(SIGINT);
  const ProgramResult result = program.Wait();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.err, HasSubstr(" --first-path 8 --paths 2 --append"));
}

TEST_F(SampleDeliveryTest, TheDeadlineLeavesCompletePaths) {
  EndAfterEightPaths(StreamFault::kHang);
  double timeout = 0.2;
  ProgramResult result;
  // Until it is enough for the blocks to arrive.
  for (; result.out.empty() && timeout < 30; timeout *= 2) {
    result = RunProgram(Command({absl::StrCat("--timeout=", timeout)}));
    EXPECT_EQ(result.exit_code, 1) << result.err;
  }
  EXPECT_EQ(Column(result.out, "price").size() % 12, 0u);
  EXPECT_THAT(result.err, AllOf(HasSubstr("increase --timeout"), HasSubstr(" --append")));
}

TEST_F(SampleDeliveryTest, AFailureBeforeTheFirstPathLeavesThePartialFile) {
  Write("out.csv.partial", "precious");
  server_.service().FailNext(
      {grpc::Status::OK, grpc::Status(grpc::StatusCode::INTERNAL, "broken")});
  EXPECT_EQ(RunProgram(Command({"--output", Path("out.csv")})).exit_code, 1);
  EXPECT_EQ(Read("out.csv.partial"), "precious");
}

TEST_F(SampleDeliveryTest, AppendRequiresThePathBefore) {
  Write("out.csv.partial", "path,row,price\n3,0,1\n");
  ExpectFailure(Command({"--first-path=5", "--append", "--output", Path("out.csv")}), 2,
                "it must belong to path 4");
  EXPECT_EQ(Read("out.csv.partial"), "path,row,price\n3,0,1\n");
  ExpectFailure(Command({"--append"}), 2, "--first-path");
  ExpectFailure(Command({"--first-path=5", "--append", "--summary"}), 2, "--summary");
}

TEST_F(SampleDeliveryTest, ASummaryIsOfAllPathsOrNone) {
  EndAfterEightPaths(StreamFault::kBreakAfterFirstBlock);
  const ProgramResult result = RunProgram(Command({"--summary"}));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, Not(HasSubstr("--first-path")));
}

TEST_F(SampleDeliveryTest, AnOutputThatIsNoFileIsWrittenDirectly) {
  EXPECT_EQ(Good(Command({"--output", "/dev/stdout"})).out, Good(Command()).out);
  Good(Command({"--output", "/dev/null"}));
}

}  // namespace
}  // namespace chorale::client
