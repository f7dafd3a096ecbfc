// Runs the chorale program against a fake server, with files in a folder of its own.
#ifndef CHORALE_TESTS_CLIENT_CLI_COMMAND_LINE_FIXTURE_H_
#define CHORALE_TESTS_CLIENT_CLI_COMMAND_LINE_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/csv.h"
#include "tests/client/cli/program.h"
#include "tests/client/cpp/fake_service.h"
#include "tests/support/temp_folder.h"

namespace chorale::client {

inline constexpr char kHouses[] =
    "size,zip,price,note\n"
    "10,01,100,x\n"
    "20,02,200,NA\n"
    "30,01,300,y\n"
    "40,?,400,x\n";

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    Write("houses.csv", kHouses);
    Write("rows.csv", "zip,size,price\na1,1,10\na2,2,20\nb77,3,1000\n");
    // The value of one row is not known.
    Write("partly.csv", "zip,size,price\na1,1,10\na2,2,\nb77,3,1000\n");
  }

  std::string Path(const std::string& name) const { return folder_ / name; }
  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(Path(name), std::ios::binary) << content;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  Program Start(std::vector<std::string> arguments, const std::string& input = "") {
    return StartIn({}, std::move(arguments), input);
  }
  // With more variables in its environment.
  Program StartIn(std::vector<std::string> environment, std::vector<std::string> arguments,
                  const std::string& input = "") {
    arguments.insert(arguments.begin(), CHORALE_PROGRAM);
    environment.push_back(absl::StrCat("CHORALE_SERVER=", server_.address()));
    return Program(arguments, environment, input);
  }
  ProgramResult RunProgram(std::vector<std::string> arguments, const std::string& input = "") {
    return Start(std::move(arguments), input).Wait();
  }
  // Runs the program, which must succeed.
  ProgramResult Good(std::vector<std::string> arguments, const std::string& input = "") {
    ProgramResult result = RunProgram(std::move(arguments), input);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result;
  }
  void ExpectFailure(std::vector<std::string> arguments, int exit_code, const std::string& what) {
    const ProgramResult result = RunProgram(std::move(arguments));
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_THAT(result.err, ::testing::HasSubstr(what));
    EXPECT_THAT(result.out, ::testing::IsEmpty());
  }

  void RegisterHouses() {
    Good({"register", Path("houses.csv"), "--target", "price", "--categorical", "zip", "--drop",
          "note"});
  }

  // Cells of CSV output, by column name.
  static std::vector<std::string> Column(const std::string& csv, const std::string& name) {
    const absl::StatusOr<CsvTable> table = ParseCsv(csv);
    EXPECT_TRUE(table.ok()) << table.status() << csv;
    std::vector<std::string> cells;
    if (!table.ok() || table->Find(name) < 0) return cells;
    for (int64_t row = 0; row < table->row_count(); ++row) {
      cells.emplace_back(table->Cell(row, table->Find(name)));
    }
    return cells;
  }

  FakeServer server_;
  const TempFolder folder_;
};

}  // namespace chorale::client

#endif  // CHORALE_TESTS_CLIENT_CLI_COMMAND_LINE_FIXTURE_H_
