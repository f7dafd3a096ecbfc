// --local-rows
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/cli/command_line_fixture.h"

namespace chorale::client {
namespace {

TEST_F(CommandLineTest, LocalRowsAreAskedFor) {
  RegisterHouses();
  Good({"sample", "houses", Path("rows.csv"), "--local-rows=40"});
  EXPECT_EQ(server_.service().last_sample().local_row_count(), 40);
  Good({"predict", "houses", Path("rows.csv"), "--local-rows", "200"});
  EXPECT_EQ(server_.service().predict_requests().back().local_row_count(), 200);
  Good({"predict", "houses", Path("rows.csv")});
  EXPECT_EQ(server_.service().predict_requests().back().local_row_count(), 0);
  for (const char* command : {"predict", "sample", "log-density"}) {
    ExpectFailure({command, "houses", Path("rows.csv"), "--local-rows=-1"}, 2, "--local-rows");
  }
}

}  // namespace
}  // namespace chorale::client
