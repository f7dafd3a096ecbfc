// chorale log-density
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/client/cli/command_line_fixture.h"
#include "tests/client/cli/program.h"

namespace chorale::client {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(CommandLineTest, LogDensity) {
  RegisterHouses();
  Write("sold.csv", "zip,size,price,offer\na1,1,3,4\na2,2,4,5\nb77,3,6,7\n");
  EXPECT_THAT(Column(Good({"log-density", "houses", Path("sold.csv")}).out, "log_density"),
              ElementsAre("0"));
  const ProgramResult two =
      Good({"log-density", "houses", Path("sold.csv"), "--values", "price,offer", "--orders", "4"});
  EXPECT_THAT(Column(two.out, "vector"), ElementsAre("price", "offer"));
  EXPECT_THAT(Column(two.out, "log_density"), ElementsAre("0", "-3"));
  EXPECT_THAT(Column(two.out, "standard_error"), ElementsAre("0.5", "0.5"));
  EXPECT_THAT(two.err, HasSubstr(absl::StrCat("seed ", kPickedSeed)));
  const ProgramResult terms =
      Good({"log-density", "houses", Path("sold.csv"), "--values=offer", "--terms", "--wrap"});
  EXPECT_THAT(Column(terms.out, "log_density"), ElementsAre("-1", "-1", "-1"));
  EXPECT_EQ(server_.service().last_log_density().beyond_buffer(), v1::BEYOND_BUFFER_WRAP);
  const ProgramResult cdfs =
      Good({"log-density", "houses", Path("sold.csv"), "--values=offer", "--terms", "--cdfs"});
  EXPECT_THAT(Column(cdfs.out, "row"), ElementsAre("0", "1", "2"));
  EXPECT_THAT(Column(cdfs.out, "log_density"), ElementsAre("-1", "-1", "-1"));
  EXPECT_THAT(Column(cdfs.out, "cdf"), ElementsAre(StartsWith("0.333"), _, _));
  const ProgramResult only =
      Good({"log-density", "houses", Path("sold.csv"), "--cdfs", "--format=csv"});
  EXPECT_THAT(only.out, StartsWith("vector,row,cdf\n"));
  EXPECT_THAT(Column(only.out, "cdf"), ElementsAre("0.5", "0.5", "0.5"));
  Write("y.csv", "a,b\n3,4\n4,5\n6,7\n");
  const ProgramResult file =
      Good({"log-density", "houses", Path("sold.csv"), "--values-file", Path("y.csv")});
  EXPECT_THAT(Column(file.out, "vector"), ElementsAre("a", "b"));
  EXPECT_THAT(Column(file.out, "log_density"), ElementsAre("0", "-3"));
}

TEST_F(CommandLineTest, LogDensityFailures) {
  RegisterHouses();
  ExpectFailure({"log-density", "houses", Path("partly.csv")}, 2,
                "line 3, column 'price': the value is missing");
  ExpectFailure({"log-density", "houses", Path("rows.csv"), "--values", "offer"}, 2,
                "no column 'offer'");
  Write("y.csv", "a\n1\n");
  ExpectFailure({"log-density", "houses", Path("rows.csv"), "--values-file", Path("y.csv")}, 2,
                "1 rows, but");
  ExpectFailure({"log-density", "houses", Path("rows.csv"), "--terms", "--orders", "2"}, 2, "--");
  ExpectFailure({"log-density", "houses", Path("rows.csv"), "--cdfs", "--orders", "2"}, 2, "--");
}

}  // namespace
}  // namespace chorale::client
