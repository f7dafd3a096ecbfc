// A server of the default model, whose clients are the plain API and the chorale program.
#ifndef CHORALE_TESTS_END_TO_END_COLUMN_FORMS_FIXTURE_H_
#define CHORALE_TESTS_END_TO_END_COLUMN_FORMS_FIXTURE_H_

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/client/cli/program.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/server_process.h"
#include "tests/golden/golden_table.h"
#include "tests/support/temp_folder.h"

namespace chorale::end_to_end {

class ColumnFormsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = new TempFolder();
    Start();
  }
  static void TearDownTestSuite() {
    delete server_;
    delete data_;
  }
  static void Start() {
    server_ = ServerProcess::Start({.models = {DefaultModelFolder()}, .data_dir = data_->path()})
                  .release();
  }
  void SetUp() override {
    ASSERT_NE(server_, nullptr);
    client_ = std::make_unique<ApiClient>(server_->address());
  }

  client::ProgramResult Chorale(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), CHORALE_PROGRAM);
    return client::Program(arguments, {absl::StrCat("CHORALE_SERVER=", server_->address())}, "")
        .Wait();
  }
  std::string File(const std::string& name, const std::string& content) const {
    std::string path = absl::StrCat(files_.path(), "/", name);
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  inline static TempFolder* data_ = nullptr;
  inline static ServerProcess* server_ = nullptr;
  const TempFolder files_;
  std::unique_ptr<ApiClient> client_;
};

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_COLUMN_FORMS_FIXTURE_H_
