// Registers tables with the chorale program and asks for rows, and shows what the server was sent.
#ifndef CHORALE_TESTS_CLIENT_CLI_TABLES_FIXTURE_H_
#define CHORALE_TESTS_CLIENT_CLI_TABLES_FIXTURE_H_

#include <string>
#include <vector>

#include "tests/client/cli/command_line_fixture.h"

namespace chorale::client {

class TablesTest : public CommandLineTest {
 protected:
  // Registers a file with this content and the target y as "t"; returns what is noted.
  std::string Register(const std::string& content, std::vector<std::string> arguments = {}) {
    Write("t.csv", content);
    arguments.insert(arguments.begin(), {"register", Path("t.csv"), "--target=y", "--name=t"});
    return Good(arguments).err;
  }
  std::string RegisterError(const std::string& content, std::vector<std::string> arguments = {}) {
    Write("t.csv", content);
    arguments.insert(arguments.begin(), {"register", Path("t.csv"), "--target=y", "--name=t"});
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  }
  // The column of the table that was registered last.
  v1::Column Registered(int column) { return server_.service().Chunks("t").at(0).columns(column); }
  // Predicts rows of this content; returns what is noted.
  std::string Predict(const std::string& content, std::vector<std::string> arguments = {}) {
    Write("rows.csv", content);
    arguments.insert(arguments.begin(), {"predict", "t", Path("rows.csv")});
    return Good(arguments).err;
  }
  v1::Column Asked(int column) {
    return server_.service().predict_requests().back().rows().columns(column);
  }
};

}  // namespace chorale::client

#endif  // CHORALE_TESTS_CLIENT_CLI_TABLES_FIXTURE_H_
