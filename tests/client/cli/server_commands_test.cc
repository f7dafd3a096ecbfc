// Commands about a server, chorale models and chorale info, and about one that refuses them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/client/cli/command_line_fixture.h"

namespace chorale::client {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(CommandLineTest, Models) {
  const ProgramResult result = Good({"models"});
  EXPECT_THAT(Column(result.out, "name"), ElementsAre("fake"));
  EXPECT_THAT(Column(result.out, "parameters"), ElementsAre("2259000"));
  EXPECT_THAT(Column(result.out, "max_features"), ElementsAre(""));
}

TEST_F(CommandLineTest, PeopleSeeANoticeOfAModelOnlyWhereThereIsOne) {
  EXPECT_THAT(Good({"models", "--format", "table"}).out, Not(HasSubstr("notice")));
  EXPECT_THAT(Column(Good({"models", "--format", "csv"}).out, "notice"), ElementsAre(""));
  const auto silent = nlohmann::json::parse(Good({"models", "--format", "json"}).out);
  EXPECT_TRUE(silent.at(0).at("notice").is_null());

  server_.service().set_notice("for tests, only");
  EXPECT_THAT(Good({"models", "--format", "table"}).out,
              AllOf(HasSubstr("notice"), HasSubstr("for tests, only")));
  EXPECT_THAT(Column(Good({"models", "--format", "csv"}).out, "notice"),
              ElementsAre("for tests, only"));
}

TEST_F(CommandLineTest, PeopleSeeTheFormOfAModelOnlyWhereThereAreForms) {
  EXPECT_THAT(Good({"models", "--format", "table"}).out, Not(HasSubstr("form")));
  EXPECT_THAT(Column(Good({"models", "--format", "csv"}).out, "form"), ElementsAre(""));
  const auto silent = nlohmann::json::parse(Good({"models", "--format", "json"}).out);
  EXPECT_TRUE(silent.at(0).at("form").is_null());

  server_.service().set_form("unfused");
  EXPECT_THAT(Good({"models", "--format", "table"}).out,
              AllOf(HasSubstr("form"), HasSubstr("unfused"), Not(HasSubstr("notice"))));
  EXPECT_THAT(Column(Good({"models", "--format", "csv"}).out, "form"), ElementsAre("unfused"));
  const auto told = nlohmann::json::parse(Good({"models", "--format", "json"}).out);
  EXPECT_EQ(told.at(0).at("form"), "unfused");
}

TEST_F(CommandLineTest, InfoShowsTheServer) {
  const auto told = nlohmann::json::parse(Good({"info", "--format", "json"}).out);
  EXPECT_EQ(told.at("version"), "9.8.7");
  EXPECT_EQ(told.at("commit"), "abcdef");
  EXPECT_EQ(told.at("backend"), "cpu");
  EXPECT_EQ(told.at("device"), "avx2");
  EXPECT_EQ(told.at("features"),
            nlohmann::json::array({"reflection", "memory_sets", "append_rows"}))
      << "without unknown ones";
  EXPECT_EQ(told.at("limits").at("max_paths"), 16'384);
  EXPECT_EQ(told.at("quotas").at("max_contexts"), 7);

  const std::string csv = Good({"info", "--format", "csv"}).out;
  EXPECT_THAT(csv, HasSubstr("max_message_bytes,4194304\n"));
  EXPECT_THAT(Column(csv, "name"), AllOf(Contains("version"), Contains("tenant_max_contexts")));
  EXPECT_THAT(Good({"info", "--format", "table"}).out,
              AllOf(HasSubstr("9.8.7"), HasSubstr("4.0 MiB"), HasSubstr("reflection")));
}

TEST_F(CommandLineTest, AnOlderServerHasNoInfo) {
  server_.service().FailNext({grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "")});
  EXPECT_EQ(RunProgram({"info"}).exit_code, 1);
}

TEST_F(CommandLineTest, ConnectionsBeingOpenedDoNotDisturbTheExit) {
  for (int i = 0; i < 50; ++i) {
    ExpectFailure({"ls", "--server", absl::StrCat("https://", server_.address())}, 1,
                  "does not speak TLS");
  }
}

}  // namespace
}  // namespace chorale::client
