#include "client/cli/sample_continuation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace chorale::client {
namespace {

using ::testing::HasSubstr;

TEST(SampleContinuationTest, TheCommandHasTheOtherWordsOfTheFirst) {
  const OtherPaths other{.seed = 7, .first_path = 40, .paths = 60, .append = true};
  EXPECT_EQ(
      CommandFor(other, {"chorale", "--server=h:1", "sample", "houses", "new rows.csv", "--paths",
                         "100", "--order=random", "--missing", ""}),
      "chorale --server=h:1 sample houses 'new rows.csv' --order=random --missing '' --seed 7 "
      "--first-path 40 --paths 60 --append");
  EXPECT_EQ(CommandFor({.seed = 1, .first_path = 2, .paths = 3},
                       {"/bin/chorale", "sample", "--seed=9", "--first-path=1", "--paths=5",
                        "--append", "--seed", "9", "h", "rows.csv"}),
            "/bin/chorale sample h rows.csv --seed 1 --first-path 2 --paths 3");
}

class CheckEndsBeforeTest : public ::testing::Test {
 protected:
  absl::Status Check(const std::string& content, int64_t first_path) const {
    std::ofstream(folder_ / "f", std::ios::binary) << content;
    return CheckEndsBefore(first_path, folder_ / "f");
  }

  const TempFolder folder_;
};

TEST_F(CheckEndsBeforeTest, TheLastLineBelongsToThePathBefore) {
  const std::string lines = "path,row,y\n" + std::string(2000, 'x') + "\n38,1,0.5\n39,0,1.5\n";
  EXPECT_EQ(Check(lines, 40), absl::OkStatus());
  EXPECT_EQ(Check("39,0,1.5\n", 40), absl::OkStatus());
  const std::vector<std::string> others = {
      lines + "39,1,2", lines + "40,0,1\n", lines + "\n", "path,row,y\n", "\n", "", "x39,0,1.5\n"};
  for (const std::string& bad : others) {
    const absl::Status status = Check(bad, 40);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("must belong to path 39"));
  }
  EXPECT_THAT(std::string(CheckEndsBefore(40, folder_ / "none").message()),
              HasSubstr("--append: cannot read '"));
}

}  // namespace
}  // namespace chorale::client
