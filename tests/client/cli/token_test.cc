// Tokens: how the chorale program makes them, and reads them from files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/client/cli/command_line_fixture.h"

namespace chorale::client {
namespace {

TEST_F(CommandLineTest, ATokenIsMadeOnceAndUsedFromItsFile) {
  const std::vector<std::string> make = {"token", "trainer", "--tenant=acme", "--role=register",
                                         absl::StrCat("--to=", Path("secret"))};
  const std::string line = Good(make).out;
  EXPECT_THAT(line, ::testing::MatchesRegex("trainer [0-9a-f]+ acme register\n"));
  const std::string secret = Read("secret");
  EXPECT_GE(secret.size(), 43) << "256 bits";
  EXPECT_EQ(line.find(secret.substr(0, 20)), std::string::npos);
  EXPECT_EQ(std::filesystem::status(Path("secret")).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ExpectFailure(make, 2, "--to: cannot write");
  EXPECT_EQ(Read("secret"), secret);
  Good({"models", absl::StrCat("--token-file=", Path("secret"))});
  EXPECT_EQ(server_.service().authorization(),
            absl::StrCat("Bearer ", secret.substr(0, secret.size() - 1)));
  Good({"models"});
  EXPECT_EQ(server_.service().authorization(), "");
}

TEST_F(CommandLineTest, ATokenThatCannotBeMadeOrReadIsNamed) {
  ExpectFailure({"token", "A B", "--tenant=acme", "--role=read", "--to=x"}, 2, "NAME");
  ExpectFailure({"token", "a", "--tenant=../b", "--role=read", "--to=x"}, 2, "--tenant");
  ExpectFailure({"token", "a", "--tenant=b", "--role=owner", "--to=x"}, 2, "--role");
  const std::string to = absl::StrCat("--to=", Path("new"));
  ExpectFailure({"token", "a", "--tenant=b", "--role=read", to, "--output", Path("no/line")}, 2,
                "--output: cannot write");
  EXPECT_FALSE(std::filesystem::exists(Path("new")));
  ExpectFailure({"models", "--token-file=/nowhere"}, 2, "--token-file: cannot read");
  Write("empty", "\n");
  ExpectFailure({"models", absl::StrCat("--token-file=", Path("empty"))}, 2, "has no token");
  Write("empty", "");
  ExpectFailure({"models", absl::StrCat("--token-file=", Path("empty"))}, 2, "has no token");
  Write("header", "Bearer abc\n");
  ExpectFailure({"models", absl::StrCat("--token-file=", Path("header"))}, 2,
                "token: omit the word \"Bearer\"");
  Write("two", "abc\ndef\n");
  ExpectFailure({"models", absl::StrCat("--token-file=", Path("two"))}, 2, "has several lines");
  Write("commented", "\xEF\xBB\xBF# of alice\r\n\r\nabc \r\n");
  Good({"models", absl::StrCat("--token-file=", Path("commented"))});
  EXPECT_EQ(server_.service().authorization(), "Bearer abc");
  Write("secret", "t");
  ExpectFailure({"models", "--server=10.0.0.1:1", absl::StrCat("--token-file=", Path("secret"))}, 2,
                "token: not sent to 10.0.0.1:1 without encryption");
}

}  // namespace
}  // namespace chorale::client
