// Descriptions, labels and expiry of contexts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/client/cli/command_line_fixture.h"

namespace chorale::client {
namespace {

using ::testing::HasSubstr;

TEST_F(CommandLineTest, DetailsAreRegisteredAndShown) {
  Good({"register", Path("houses.csv"), "--target=price", "--description", "Prices of houses",
        "--label", "team=a", "--label=year=2026", "--expire-days", "1.5"});
  const std::string table = Good({"show", "houses", "--format=table"}).out;
  EXPECT_THAT(table, HasSubstr("description: Prices of houses"));
  EXPECT_THAT(table, HasSubstr("label: team=a\nlabel: year=2026"));
  EXPECT_THAT(table, HasSubstr("expires: 1970-01-02T12:00:00Z"));
  const auto object = nlohmann::json::parse(Good({"show", "houses", "--format=json"}).out);
  EXPECT_EQ(object.at("description"), "Prices of houses");
  EXPECT_EQ(object.at("labels").at("year"), "2026");
  EXPECT_EQ(object.at("expires"), "1970-01-02T12:00:00Z");
  EXPECT_EQ(object.at("last_used"), "");
}

TEST_F(CommandLineTest, ALabelIsAKeyAndAValue) {
  for (const char* label : {"team", "=a"}) {
    const ProgramResult result =
        RunProgram({"register", Path("houses.csv"), "--target=price", "--label", label});
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr("must be KEY=VALUE"));
  }
}

TEST_F(CommandLineTest, AContextIsReplacedByItsEtag) {
  RegisterHouses();
  const auto etag = [&]() -> std::string {
    return nlohmann::json::parse(Good({"show", "houses", "--format=json"}).out).at("etag");
  };
  const std::string first = etag();
  // Another target, and so other content.
  const auto other = [&](std::vector<std::string> options) {
    options.insert(options.begin(),
                   {"register", Path("houses.csv"), "--target=size", "--name=houses"});
    return options;
  };
  ExpectFailure(other({}), 4, "taken");
  ExpectFailure(other({"--replace", "--etag=old"}), 4, "another etag");
  const ProgramResult replaced = Good(other({"--replace", absl::StrCat("--etag=", first)}));
  EXPECT_THAT(replaced.err, HasSubstr("the content of context 'houses' was replaced"));
  EXPECT_NE(etag(), first);
}

TEST_F(CommandLineTest, AContextIsDeletedByItsEtag) {
  RegisterHouses();
  const std::string etag =
      nlohmann::json::parse(Good({"show", "houses", "--format=json"}).out).at("etag");
  ExpectFailure({"rm", "houses", "--etag=old"}, 4, "another etag");
  Good({"rm", "houses", absl::StrCat("--etag=", etag)});
  ExpectFailure({"rm", "houses"}, 3, "no context");
  Good({"rm", "houses", "--allow-missing"});
}

TEST_F(CommandLineTest, ListsHaveAFilterAndAnOrder) {
  Good({"ls", "--filter=labels.team = \"a\"", "--order-by", "create_time desc"});
  EXPECT_EQ(server_.service().last_list().filter(), "labels.team = \"a\"");
  EXPECT_EQ(server_.service().last_list().order_by(), "create_time desc");
}

}  // namespace
}  // namespace chorale::client
