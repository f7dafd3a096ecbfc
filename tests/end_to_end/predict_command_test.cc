// 'chorale predict' with a real server: a command that ends early, and the command that goes on.
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cli/program.h"
#include "tests/end_to_end/model_server_fixture.h"
#include "tests/support/temp_folder.h"

namespace chorale::end_to_end {
namespace {

using ::testing::HasSubstr;

class PredictCommandTest : public ModelServerFixture {
 protected:
  static client::ProgramResult Run(std::vector<std::string> words) {
    words.insert(words.begin(), CHORALE_PROGRAM);
    return client::Program(words, {absl::StrCat("CHORALE_SERVER=", server().address())}, "").Wait();
  }

  // Writes rows of two groups that alternate, in which each hundredth row has a value. The server
  // rejects the row `bad`; -1: none.
  std::string WriteRows(int64_t count, int64_t bad) const {
    const Rows rows = RandomRows(count, 2, 5);
    const std::string path = folder_ / "rows.csv";
    std::ofstream file(path);
    file << "x0,x1,group,y\n";
    for (int64_t row = 0; row < count; ++row) {
      file << (row == bad ? "large" : absl::StrCat(rows.x[2 * row])) << ',' << rows.x[2 * row + 1]
           << ',' << row % 2 << ',' << (row % 100 == 0 ? "0.5" : "") << '\n';
    }
    return path;
  }

  // Returns the words of the command that the program has written to standard error.
  static std::vector<std::string> CommandIn(const std::string& err) {
    for (absl::string_view line : absl::StrSplit(err, '\n')) {
      if (!absl::ConsumePrefix(&line, absl::StrCat("chorale: ", CHORALE_PROGRAM, " "))) continue;
      return absl::StrSplit(line, ' ');
    }
    ADD_FAILURE() << err;
    return {};
  }

  const TempFolder folder_;
};

// A row's prediction has the same bits in any request with the same known values.
TEST_F(PredictCommandTest, ACommandThatIsContinuedWritesTheSameBytes) {
  struct Case {
    int64_t rows;
    int64_t bad;
    std::vector<std::string> flags;
  };
  for (const auto& [rows, bad, flags] : {Case{2500, 2150, {"--given"}},
                                         {2500, 2101, {"--given", "--group-by", "group"}},
                                         {60, 50, {"--given", "--local-rows", "19"}}}) {
    std::vector<std::string> words = {"predict", "c", WriteRows(rows, -1), "--quantiles=0.5",
                                      "--mixture"};
    words.insert(words.end(), flags.begin(), flags.end());
    const client::ProgramResult all = Run(words);
    ASSERT_EQ(all.exit_code, 0) << all.err;

    WriteRows(rows, bad);
    const client::ProgramResult first = Run(words);
    EXPECT_EQ(first.exit_code, 2);
    EXPECT_THAT(first.err, HasSubstr(absl::StrCat("rows.csv: line ", bad + 2)));
    EXPECT_THAT(first.err, HasSubstr("rows were written to standard output"));
    EXPECT_TRUE(absl::StartsWith(all.out, first.out));
    WriteRows(rows, -1);
    const client::ProgramResult others = Run(CommandIn(first.err));
    EXPECT_EQ(others.exit_code, 0) << others.err;
    EXPECT_TRUE(first.out + others.out == all.out) << absl::StrJoin(flags, " ");
  }
}

}  // namespace
}  // namespace chorale::end_to_end
