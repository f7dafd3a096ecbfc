// --memory-rows and --memory-policy
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/client/cli/command_line_fixture.h"
#include "tests/client/cpp/server_errors.h"

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRows = 129;

class MemorySetsTest : public CommandLineTest {
 protected:
  MemorySetsTest() {
    std::string csv = "size,price\n";
    for (int i = 0; i < kRows; ++i) absl::StrAppend(&csv, i, ",", i, "\n");
    Write("table.csv", csv);
  }
  // The arguments that register the table under a name.
  std::vector<std::string> Arguments(const std::string& name,
                                     const std::vector<std::string>& options = {}) const {
    std::vector<std::string> arguments = {"register", Path("table.csv"), "--target=price",
                                          "--name=" + name};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return arguments;
  }
};

TEST_F(MemorySetsTest, AreRegisteredAndShown) {
  Good(Arguments("all"));
  Good(Arguments("merged", {"--memory-rows=64"}));
  Good(Arguments("drawn", {"--memory-rows", "128", "--memory-policy", "sample"}));
  Good(Arguments("heavy", {"--memory-rows", "64", "--memory-policy=heavy"}));
  const std::string listed = Good({"ls"}).out;
  EXPECT_THAT(Column(listed, "name"), ElementsAre("all", "drawn", "heavy", "merged"));
  EXPECT_THAT(Column(listed, "memory_rows"), ElementsAre("0", "128", "64", "64"));
  const auto objects = nlohmann::json::parse(Good({"ls", "--format=json"}).out);
  EXPECT_EQ(objects.at(1).at("memory_rows"), 128);

  EXPECT_THAT(Good({"show", "drawn", "--format=table"}).out,
              HasSubstr("memory set: 128 keys, policy sample\n"));
  EXPECT_THAT(Good({"show", "merged", "--format=table"}).out,
              HasSubstr("memory set: 64 keys, policy merge\n"));
  EXPECT_THAT(Good({"show", "all", "--format=table"}).out, Not(HasSubstr("memory set")));
  for (const char* rows : {"129", "130"}) {
    Good(Arguments(rows, {absl::StrCat("--memory-rows=", rows)}));
    EXPECT_THAT(Good({"show", rows, "--format=table"}).out,
                HasSubstr(absl::StrCat("memory set: none (", rows, " keys, but only 129 rows)\n")));
  }
  const auto heavy = nlohmann::json::parse(Good({"show", "heavy", "--format=json"}).out);
  EXPECT_EQ(heavy.at("memory_rows"), 64);
  EXPECT_EQ(heavy.at("memory_policy"), "heavy");
  const auto all = nlohmann::json::parse(Good({"show", "all", "--format=json"}).out);
  EXPECT_EQ(all.at("memory_rows"), 0);
  EXPECT_EQ(all.at("memory_policy"), "");
}

TEST_F(MemorySetsTest, ArePartOfTheContent) {
  Good(Arguments("houses", {"--memory-rows=64"}));
  ExpectFailure(Arguments("houses", {"--memory-rows=65"}), 4, "taken by other content");
  ExpectFailure(Arguments("houses"), 4, "taken by other content");
}

TEST_F(MemorySetsTest, OptionsAreChecked) {
  ExpectFailure(Arguments("a", {"--memory-policy=sample"}), 2, "--memory-rows");
  ExpectFailure(Arguments("a", {"--memory-rows=64", "--memory-policy=best"}), 2, "best");
  ExpectFailure(Arguments("a", {"--memory-rows=-1"}), 2, "--memory-rows");
  server_.service().FailNext({WithBadField("bad", "spec.memory_row_count", "is 63")});
  ExpectFailure(Arguments("a", {"--memory-rows=63"}), 2, "bad; --memory-rows: is 63");
  server_.service().FailNext(
      {WithBadField("bad", "spec.memory_policy", "requires memory_row_count")});
  ExpectFailure(Arguments("a", {"--memory-rows=0", "--memory-policy=merge"}), 2,
                "bad; --memory-policy: requires --memory-rows");
}

}  // namespace
}  // namespace chorale::client
