#include "client/cli/continuation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace chorale::client {
namespace {

using ::testing::HasSubstr;

TEST(ContinuationTest, TheCommandHasTheOtherWordsOfTheFirst) {
  EXPECT_EQ(ContinuingCommand({"chorale", "--server=h:1", "sample", "houses", "new rows.csv",
                               "--paths", "100", "--order=random", "--missing", ""},
                              {{"--seed", 7}, {"--first-path", 40}, {"--paths", 60}}, true),
            "chorale --server=h:1 sample houses 'new rows.csv' --order=random --missing '' "
            "--seed 7 --first-path 40 --paths 60 --append");
  EXPECT_EQ(ContinuingCommand({"/bin/chorale", "sample", "--seed=9", "--first-path=1", "--paths=5",
                               "--append", "--seed", "9", "h", "rows.csv"},
                              {{"--seed", 1}, {"--first-path", 2}, {"--paths", 3}}, false),
            "/bin/chorale sample h rows.csv --seed 1 --first-path 2 --paths 3");
  EXPECT_EQ(ContinuingCommand({"chorale", "predict", "h", "--first-row", "8", "--paths=5"},
                              {{"--first-row", 16}}, true),
            "chorale predict h --paths=5 --first-row 16 --append");
}

class CheckLastLineTest : public ::testing::Test {
 protected:
  absl::Status Check(const std::string& content, int64_t number) const {
    std::ofstream(folder_ / "f", std::ios::binary) << content;
    return CheckLastLine(folder_ / "f", number, "its owner");
  }

  const TempFolder folder_;
};

TEST_F(CheckLastLineTest, TheLastLineHasTheNumber) {
  const std::string lines = "path,row,y\n" + std::string(2000, 'x') + "\n38,1,0.5\n39,0,1.5\n";
  EXPECT_EQ(Check(lines, 39), absl::OkStatus());
  EXPECT_EQ(Check("39,0,1.5\n", 39), absl::OkStatus());
  const std::vector<std::string> others = {
      lines + "39,1,2", lines + "40,0,1\n", lines + "\n", "path,row,y\n", "\n", "", "x39,0,1.5\n"};
  for (const std::string& bad : others) {
    const absl::Status status = Check(bad, 39);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("must belong to its owner"));
  }
  EXPECT_THAT(std::string(CheckLastLine(folder_ / "none", 39, "").message()),
              HasSubstr("--append: cannot read '"));
}

}  // namespace
}  // namespace chorale::client
