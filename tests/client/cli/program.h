// Runs a program and collects its output.
#ifndef CHORALE_TESTS_CLIENT_CLI_PROGRAM_H_
#define CHORALE_TESTS_CLIENT_CLI_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace chorale::client {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal if a signal ended it
  std::string out;
  std::string err;
};

// A program that runs until Wait. Used by one thread.
class Program {
 public:
  // `arguments` with the program's path first; `environment` as "NAME=value", in place of this
  // process's. `input` is its standard input.
  Program(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
          const std::string& input);
  ~Program();

  void Signal(int signal) const;
  // Kills the program, and fails the test, if it does not end within kPatience.
  ProgramResult Wait();

 private:
  std::string input_file_;
  std::string out_file_;
  std::string err_file_;
  pid_t pid_ = -1;
};

}  // namespace chorale::client

#endif  // CHORALE_TESTS_CLIENT_CLI_PROGRAM_H_
