#include "tests/client/cli/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/support/eventually.h"

namespace chorale::client {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

Program::Program(const std::vector<std::string>& arguments,
                 const std::vector<std::string>& environment, const std::string& input) {
  static int count = 0;
  const std::string stem = absl::StrCat(::testing::TempDir(), "/program_", getpid(), "_", ++count);
  input_file_ = stem + ".in";
  out_file_ = stem + ".out";
  err_file_ = stem + ".err";
  std::ofstream(input_file_, std::ios::binary) << input;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, input_file_.c_str(), O_RDONLY, 0);
  constexpr int kCreate = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_file_.c_str(), kCreate, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err_file_.c_str(), kCreate, 0600);
  const int error = posix_spawn(&pid_, arguments[0].c_str(), &actions, nullptr,
                                Pointers(arguments).data(), Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(error, 0) << "cannot start " << arguments[0];
  if (error != 0) pid_ = -1;
}

Program::~Program() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    Wait();
  }
  for (const std::string& file : {input_file_, out_file_, err_file_}) unlink(file.c_str());
}

void Program::Signal(int signal) const {
  ASSERT_GT(pid_, 0);
  kill(pid_, signal);
}

ProgramResult Program::Wait() {
  ProgramResult result;
  if (pid_ <= 0) return result;
  int status = 0;
  if (!Eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; })) {
    ADD_FAILURE() << "the program did not end";
    kill(pid_, SIGKILL);
    waitpid(pid_, &status, 0);
  }
  pid_ = -1;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = Slurp(out_file_);
  result.err = Slurp(err_file_);
  return result;
}

}  // namespace chorale::client
