// The program from outside: its exit status and its standard error.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

extern char** environ;

namespace chorale {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A chorale-server process, which the destructor kills. Not thread-safe.
class Program {
 public:
  Program(const std::string& output, std::vector<std::string> arguments) : output_(output) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, output.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    Spawn(&actions, std::move(arguments));
  }
  // Its standard error is `log`; -1: it has no standard descriptor at all.
  Program(int log, std::vector<std::string> arguments) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (log >= 0) {
      posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO);
    } else {
      for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        posix_spawn_file_actions_addclose(&actions, fd);
      }
    }
    Spawn(&actions, std::move(arguments));
  }
  ~Program() {
    if (pid_ > 0 && !exit_code_.has_value()) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  // The exit status; -1 if a signal ended it or if it did not end in time.
  int Wait() {
    Eventually([this] {
      int status = 0;
      if (!exit_code_.has_value() && waitpid(pid_, &status, WNOHANG) == pid_) {
        exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      return exit_code_.has_value();
    });
    return exit_code_.value_or(-1);
  }

  void Signal(int signal) { kill(pid_, signal); }
  pid_t pid() const { return pid_; }

  std::string Output() const {
    std::ifstream file(output_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  // Returns false if the program ends, or time runs out, before the text appears.
  bool WaitForOutput(const std::string& text) const {
    Eventually([&] { return HasEnded() || absl::StrContains(Output(), text); });
    return absl::StrContains(Output(), text);
  }

  bool HasEnded() const {
    siginfo_t ended = {};
    waitid(P_PID, pid_, &ended, WEXITED | WNOHANG | WNOWAIT);
    return ended.si_pid != 0;
  }

 private:
  void Spawn(posix_spawn_file_actions_t* actions, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), CHORALE_SERVER_BINARY);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, pointers[0], actions, nullptr, pointers.data(), environ), 0);
    posix_spawn_file_actions_destroy(actions);
  }

  const std::string output_;
  pid_t pid_ = -1;
  std::optional<int> exit_code_;
};

class ProgramTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }

  // A valid server with additional arguments.
  Program Run(const std::vector<std::string>& more = {}) {
    return Program(Path(absl::StrCat("output-", runs_++)), Arguments(more));
  }
  // The same, which logs elsewhere, and is seen by its port file.
  Program RunWithLog(int log) {
    return Program(log, Arguments({"--metrics_address=", "--port_file=" + Path("port")}));
  }
  // False if it ends before.
  bool WaitForPortFile(const Program& program) const {
    Eventually([&] { return program.HasEnded() || std::filesystem::exists(Path("port")); });
    return std::filesystem::exists(Path("port"));
  }

  std::vector<std::string> Arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {
        "--listen_address=127.0.0.1:0",
        "--metrics_address=127.0.0.1:0",
        absl::StrCat("--models=", CHORALE_SOURCE_DIR, "/tests/golden/golden_tiny"),
        absl::StrCat("--data_dir=", Path("data")),
        "--backend=cpu",
        "--lame_duck=0s",
        "--context_pool_mib=16",
        "--buffer_pool_mib=16"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  const TempFolder folder_;
  int runs_ = 0;
};

TEST_F(ProgramTest, HelpAndVersionEndWithZero) {
  Program help(Path("help"), {"--help"});
  EXPECT_EQ(help.Wait(), 0);
  EXPECT_THAT(help.Output(), HasSubstr("--context_pool_mib (default \"0\")"));
  Program version(Path("version"), {"--version"});
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_THAT(version.Output(), HasSubstr("chorale-server "));
}

TEST_F(ProgramTest, WrongFlagsEndWithTwoAndAreNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "--models"},
      {{"--models=m"}, "--data_dir"},
      {{"--no_such_flag"}, "no_such_flag"},
      {{"--models=m", "--data_dir=d", "--threads=many"}, "--threads"},
      {{"--models=m", "--data_dir=d", "--context_pool_mib=-1"}, "--context_pool_mib"},
      {{"--models=m", "--data_dir=d", "--log_format=xml"}, "--log_format"},
  };
  for (const auto& [arguments, name] : cases) {
    Program program(Path("wrong"), arguments);
    EXPECT_EQ(program.Wait(), 2) << name;
    EXPECT_THAT(program.Output(), HasSubstr(name));
  }
}

TEST_F(ProgramTest, WrongConfigurationsEndWithTwoAndAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"max_path: 1\n", "max_path is not a flag"},
      {"max_paths: 0\n", "max_paths must be from 1 to"},
      {"max_paths: 1\nmax_paths: 1\n", "max_paths is set twice"},
      {"max_paths: [\n", "line 2"},
  };
  const std::string file = Path("server.yaml");
  for (const auto& [text, what] : cases) {
    std::ofstream(file) << text;
    Program program = Run({absl::StrCat("--config=", file)});
    EXPECT_EQ(program.Wait(), 2) << text;
    EXPECT_THAT(program.Output(), HasSubstr(absl::StrCat(file, ": ", what)));
  }
}

TEST_F(ProgramTest, PrintsTheConfigurationThatCounts) {
  const std::string file = Path("server.yaml");
  std::ofstream(file) << "max_paths: 3\nmax_orders: 3\nmax_query_rows: 3\n";
  setenv("CHORALE_MAX_ORDERS", "2", 1);
  setenv("CHORALE_MAX_QUERY_ROWS", "2", 1);
  Program first = Run({"--print_config", "--max_query_rows=1", absl::StrCat("--config=", file)});
  unsetenv("CHORALE_MAX_ORDERS");
  unsetenv("CHORALE_MAX_QUERY_ROWS");
  EXPECT_EQ(first.Wait(), 0);
  EXPECT_THAT(first.Output(), HasSubstr("\nmax_paths: 3\n"));
  EXPECT_THAT(first.Output(), HasSubstr("\nmax_orders: 2\n"));
  EXPECT_THAT(first.Output(), HasSubstr("\nmax_query_rows: 1\n"));
  std::ofstream(file) << first.Output();
  Program second(Path("second"), {"--print_config", absl::StrCat("--config=", file)});
  EXPECT_EQ(second.Wait(), 0);
  EXPECT_EQ(second.Output(), first.Output());
}

TEST_F(ProgramTest, AVariableThatIsNoFlagIsOnlyAWarning) {
  setenv("CHORALE_MAX_PATH", "2", 1);
  setenv("CHORALE_PORT_50051_TCP_ADDR", "10.0.0.1", 1);
  Program program = Run();
  unsetenv("CHORALE_MAX_PATH");
  unsetenv("CHORALE_PORT_50051_TCP_ADDR");
  ASSERT_TRUE(program.WaitForOutput("serving backend=")) << program.Output();
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_THAT(program.Output(), HasSubstr("warning unknown_variable variable=CHORALE_MAX_PATH\n"));
  EXPECT_THAT(program.Output(), Not(HasSubstr("TCP_ADDR")));
}

TEST_F(ProgramTest, ServesUntilSigtermAndEndsWithZero) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string port_file = Path(absl::StrCat("port-", signal));
    Program program = Run({absl::StrCat("--port_file=", port_file)});
    ASSERT_TRUE(program.WaitForOutput("serving backend=")) << program.Output();
    int port = 0;
    std::ifstream(port_file) >> port;
    EXPECT_GT(port, 0);
    EXPECT_THAT(program.Output(), HasSubstr(absl::StrCat("port=", port)));
    program.Signal(signal);
    EXPECT_EQ(program.Wait(), 0) << program.Output();
    EXPECT_THAT(program.Output(), HasSubstr("stopped"));
  }
}

TEST_F(ProgramTest, TextThatCannotBePrintedEndsWithOne) {
  for (const char* const flag : {"--help", "--version"}) {
    EXPECT_EQ(Program("/dev/full", {flag}).Wait(), 1) << flag;
  }
}

// A terminal that is closed, a log that is rotated, a file that may not grow: from the start, while
// the configuration is read, until the end.
TEST_F(ProgramTest, SignalsThatEndOtherProgramsDoNotEndIt) {
  const std::vector<int> harmless = {SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2, SIGXFSZ};
  const std::string file = Path("server.yaml");
  std::ofstream(file) << "max_paths: 7\n";
  Program program = Run({"--lame_duck=10m", absl::StrCat("--config=", file)});
  ASSERT_TRUE(program.WaitForOutput("info machine")) << program.Output();
  for (const int signal : harmless) program.Signal(signal);  // while it starts, or soon after
  ASSERT_TRUE(program.WaitForOutput("serving backend=")) << program.Output();
  ASSERT_TRUE(program.WaitForOutput("info reloaded")) << program.Output();
  ASSERT_TRUE(program.WaitForOutput("info reloaded")) << program.Output();
  program.Signal(SIGTERM);
  ASSERT_TRUE(program.WaitForOutput("shutdown_requested"));
  for (const int signal : harmless) program.Signal(signal);
  program.Signal(SIGTERM);
  ASSERT_TRUE(program.WaitForOutput("shutdown_in_progress")) << program.Output();
  program.Signal(SIGTERM);
  program.Signal(SIGINT);
  EXPECT_EQ(program.Wait(), 0) << program.Output();
  EXPECT_THAT(program.Output(), HasSubstr("info stopped"));
  const std::vector<std::string> parts = absl::StrSplit(program.Output(), "shutdown_in_progress");
  EXPECT_EQ(parts.size(), 2) << program.Output();
}

TEST_F(ProgramTest, ALogThatNobodyReadsAnyMoreDoesNotEndIt) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  Program program = RunWithLog(ends[1]);
  close(ends[1]);
  ASSERT_TRUE(WaitForPortFile(program)) << program.Wait();
  program.Signal(SIGHUP);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

TEST_F(ProgramTest, ALogWhoseReaderHangsDoesNotKeepItFromStopping) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const int flags = fcntl(ends[1], F_GETFL);
  fcntl(ends[1], F_SETFL, flags | O_NONBLOCK);
  const std::string line(4096, 'x');
  while (write(ends[1], line.data(), line.size()) > 0) {
  }
  fcntl(ends[1], F_SETFL, flags);  // the program shares them
  Program program = RunWithLog(ends[1]);
  ASSERT_TRUE(WaitForPortFile(program)) << program.Wait();
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  for (const int end : ends) close(end);
}

TEST_F(ProgramTest, WithoutStandardDescriptorsNoFileTakesTheirPlace) {
  Program program = RunWithLog(-1);
  ASSERT_TRUE(WaitForPortFile(program)) << program.Wait();
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {  // nobody writes to the other one
    EXPECT_EQ(std::filesystem::read_symlink(absl::StrCat("/proc/", program.pid(), "/fd/", fd)),
              "/dev/null");
  }
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

TEST_F(ProgramTest, TheLogSaysWhatTheMachineGivesAndWhatWasChosen) {
  Program program = Run();
  ASSERT_TRUE(program.WaitForOutput("serving backend=")) << program.Output();
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_THAT(program.Output(), ::testing::ContainsRegex("machine memory_mib=[0-9]+ memory_from="));
  EXPECT_THAT(program.Output(), ::testing::ContainsRegex("processors=[0-9.]+ processors_from="));
  EXPECT_THAT(program.Output(), HasSubstr("context_pool_mib=16 buffer_pool_mib=16"));
}

TEST_F(ProgramTest, TooLittleMemoryIsSaidAtTheStart) {
  Program program = Run({"--context_pool_mib=0", "--buffer_pool_mib=0", "--memory_limit_mib=60"});
  EXPECT_EQ(program.Wait(), 2) << program.Output();
  EXPECT_THAT(program.Output(), HasSubstr("start_failed"));
  EXPECT_THAT(program.Output(),
              HasSubstr("may use 60 MiB of memory (--memory_limit_mib), but needs about"));
}

TEST_F(ProgramTest, MetricsAreServedOnEveryKindOfAddress) {
  for (const std::string host : {"[::1]", "[::]", "127.0.0.2", "localhost"}) {
    Program program = Run({absl::StrCat("--metrics_address=", host, ":0")});
    const bool serves = program.WaitForOutput("serving backend=");
    const bool has_address = !absl::StrContains(program.Output(), "this machine does not have");
    if (absl::StrContains(host, "::") && !has_address) continue;  // no IPv6 here
    ASSERT_TRUE(serves) << program.Output();
    EXPECT_THAT(program.Output(), ::testing::ContainsRegex("metrics_port=[1-9]"));
    program.Signal(SIGTERM);
    EXPECT_EQ(program.Wait(), 0);
  }
}

TEST_F(ProgramTest, AnAddressThatCannotBeHadIsNamedWithItsFlagAndTheReason) {
  const struct {
    const char* flag;
    int status;
    const char* what;
  } cases[] = {
      {"--metrics_address=:9464", 2,
       "--metrics_address: cannot listen on :9464: the address must be HOST:PORT"},
      {"--metrics_address=::1:9464", 2, "with an IPv6 address in brackets"},
      // It may have it in a moment.
      {"--metrics_address=192.0.2.1:9464", 1, "this machine does not have that address"},
  };
  for (const auto& [flag, status, what] : cases) {
    Program program = Run({flag});
    EXPECT_EQ(program.Wait(), status) << program.Output();
    EXPECT_THAT(program.Output(), HasSubstr(what));
  }
}

TEST_F(ProgramTest, CheckAsksTheServerThatTheConfigurationNames) {
  const std::string port_file = Path("port");
  Program program = Run({absl::StrCat("--port_file=", port_file)});
  ASSERT_TRUE(program.WaitForOutput("serving backend=")) << program.Output();
  int port = 0;
  std::ifstream(port_file) >> port;
  // Only the address counts, so the models and the rest need not be given.
  const std::string file = Path("server.yaml");
  std::ofstream(file) << "listen_address: 0.0.0.0:" << port << "\nmax_paths: 0\n";
  const std::vector<std::string> check = {"--check", absl::StrCat("--config=", file)};
  Program healthy(Path("healthy"), check);
  EXPECT_EQ(healthy.Wait(), 0) << healthy.Output();
  EXPECT_EQ(healthy.Output(), "");
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  Program unhealthy(Path("unhealthy"), check);
  EXPECT_EQ(unhealthy.Wait(), 1);
  EXPECT_THAT(unhealthy.Output(), HasSubstr(absl::StrCat("no answer from 127.0.0.1:", port)));
}

TEST_F(ProgramTest, SighupReadsTheConfigurationAgain) {
  const std::string file = Path("server.yaml");
  std::ofstream(file) << "log_level: info\nthreads: 1\n";
  Program program = Run({absl::StrCat("--config=", file)});
  ASSERT_TRUE(program.WaitForOutput("serving backend=")) << program.Output();
  program.Signal(SIGHUP);
  ASSERT_TRUE(program.WaitForOutput("info reloaded\n")) << program.Output();
  // The time that a file must have stayed as it is does not matter to the signal.
  std::ofstream(file) << "log_level: info\nthreads: 2\nmax_paths: 7\n";
  program.Signal(SIGHUP);
  ASSERT_TRUE(program.WaitForOutput("info reloaded changed=max_paths restart_required=threads"))
      << program.Output();
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

// One line tells of flags, tokens and tenants.
TEST_F(ProgramTest, AReloadIsOneLine) {
  const std::string file = Path("server.yaml");
  const std::string tokens = Path("tokens");
  const auto line = [](const std::string& name, char digit) {
    return absl::StrCat(name, " ", std::string(64, digit), " acme read\n");
  };
  std::ofstream(file) << "max_paths: 7\n";
  std::ofstream(tokens) << line("alice", 'a') << line("bob", 'b');
  Program program = Run({absl::StrCat("--config=", file), absl::StrCat("--token_file=", tokens)});
  ASSERT_TRUE(program.WaitForOutput("serving backend=")) << program.Output();
  std::ofstream(tokens) << line("alice", 'a');
  program.Signal(SIGHUP);
  ASSERT_TRUE(program.WaitForOutput("info reloaded tokens=\"removed bob: 1 now\""))
      << program.Output();
  std::ofstream(file) << "";
  std::ofstream(tokens) << "";
  program.Signal(SIGHUP);
  ASSERT_TRUE(program.WaitForOutput(
      absl::StrCat("error reload_rejected reason=\"", tokens, ": has no entries, but had 1")))
      << program.Output();
  EXPECT_THAT(program.Output(),
              HasSubstr(absl::StrCat("--config: ", file, ": has no entries, but had 1")));
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

// As Kubernetes changes the files of a ConfigMap.
TEST_F(ProgramTest, AConfigurationThatIsSwappedIsReadAgain) {
  const auto write = [this](const std::string& folder, const std::string& text) {
    std::filesystem::create_directories(Path(folder));
    std::ofstream(Path(absl::StrCat(folder, "/server.yaml"))) << text;
    std::filesystem::create_directory_symlink(folder, Path("..data_new"));
    std::filesystem::rename(Path("..data_new"), Path("..data"));
  };
  write("first", "max_paths: 7\n");
  std::filesystem::create_symlink("..data/server.yaml", Path("server.yaml"));
  Program program = Run({absl::StrCat("--config=", Path("server.yaml"))});
  ASSERT_TRUE(program.WaitForOutput("serving backend=")) << program.Output();
  write("second", "max_paths: wrong\n");
  ASSERT_TRUE(program.WaitForOutput("error reload_rejected reason=")) << program.Output();
  EXPECT_THAT(program.Output(), HasSubstr("max_paths: \\\"wrong\\\" is not a valid value."));
  write("third", "max_paths: 8\n");
  program.Signal(SIGHUP);  // at once
  ASSERT_TRUE(program.WaitForOutput("info reloaded changed=max_paths")) << program.Output();
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

TEST_F(ProgramTest, LogsJson) {
  Program program = Run({"--log_format=json"});
  ASSERT_TRUE(program.WaitForOutput("\"event\":\"serving\"")) << program.Output();
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  std::istringstream lines(program.Output());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_THAT(line, ::testing::StartsWith("{\"time\":\"20"));
    EXPECT_THAT(line, ::testing::EndsWith("}"));
  }
  EXPECT_GE(count, 4);
}

TEST_F(ProgramTest, APortInUseEndsWithOneAndIsNamed) {
  const std::string port_file = Path("port");
  Program first = Run({absl::StrCat("--port_file=", port_file)});
  ASSERT_TRUE(first.WaitForOutput("serving backend=")) << first.Output();
  int port = 0;
  std::ifstream(port_file) >> port;
  const std::string address = absl::StrCat("127.0.0.1:", port);
  Program second =
      Run({absl::StrCat("--listen_address=", address), absl::StrCat("--data_dir=", Path("other"))});
  EXPECT_EQ(second.Wait(), 1) << second.Output();
  EXPECT_THAT(second.Output(), HasSubstr(absl::StrCat("cannot listen on ", address)));
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 0);
}

TEST_F(ProgramTest, APortFileReplacesNoFolder) {
  const std::string folder = Path("folder");
  std::filesystem::create_directory(folder);
  Program program = Run({absl::StrCat("--port_file=", folder)});
  EXPECT_EQ(program.Wait(), 2);
  EXPECT_THAT(program.Output(), HasSubstr(absl::StrCat("--port_file: ", folder, " is a folder")));
  EXPECT_TRUE(std::filesystem::is_directory(folder));
}

// What a start would say one after the other.
TEST_F(ProgramTest, AllMistakesAreSaidAtOnce) {
  const std::string file = Path("server.yaml");
  std::ofstream(file) << "max_paths: none\nmax_query_rows: 0\nmax_query_row: 1\nthreads: 2\n";
  Program flags(Path("flags"),
                Arguments({"--config=" + file, "--threads=many", "--no_such_flag=1"}));
  EXPECT_EQ(flags.Wait(), 2);
  EXPECT_THAT(flags.Output(),
              AllOf(HasSubstr("server.yaml: max_paths: \"none\" is not a valid value"),
                    HasSubstr("server.yaml: max_query_rows must be"),
                    HasSubstr("server.yaml: max_query_row is not a flag"),
                    HasSubstr("--threads: \"many\""), HasSubstr("unknown flag --no_such_flag")));

  const std::vector<std::string> files = {"--tls_certificate=/nowhere/server.crt",
                                          "--tls_key=/nowhere/server.key",
                                          "--token_file=/nowhere/tokens",
                                          "--tenant_file=/nowhere/tenants",
                                          "--port_file=/nowhere/port",
                                          "--listen_address=localhost:port",
                                          "--memory_limit_mib=50",
                                          "--models=/nowhere/model"};
  const auto named =
      AllOf(HasSubstr("/nowhere/server.crt: cannot be read"),
            HasSubstr("/nowhere/tokens: cannot be"), HasSubstr("/nowhere/tenants: cannot be read"),
            HasSubstr("--port_file: cannot write to /nowhere: "),
            HasSubstr("--listen_address: cannot listen on localhost:port"));
  Program start = Run(files);
  EXPECT_EQ(start.Wait(), 2);
  EXPECT_THAT(start.Output(), named);
  std::vector<std::string> check = files;
  check.emplace_back("--check_config");
  Program checked = Run(check);
  EXPECT_EQ(checked.Wait(), 2);
  EXPECT_THAT(checked.Output(), AllOf(named, HasSubstr("--memory_limit_mib=50 is too low"),
                                      HasSubstr("cannot load the model in /nowhere/model")));
}

TEST_F(ProgramTest, CheckConfigChangesNothingAndServersMayRun) {
  Program check = Run({"--check_config", absl::StrCat("--port_file=", Path("port"))});
  EXPECT_EQ(check.Wait(), 0);
  EXPECT_THAT(check.Output(), HasSubstr("the server can start\n"));
  EXPECT_FALSE(std::filesystem::exists(Path("data")));
  EXPECT_FALSE(std::filesystem::exists(Path("port")));
  Program program = Run({absl::StrCat("--port_file=", Path("port"))});
  ASSERT_TRUE(program.WaitForOutput("serving backend=")) << program.Output();
  int port = 0;
  std::ifstream(Path("port")) >> port;
  Program beside = Run({absl::StrCat("--listen_address=127.0.0.1:", port), "--check_config",
                        absl::StrCat("--port_file=", Path("port"))});
  EXPECT_EQ(beside.Wait(), 0) << beside.Output();
  EXPECT_TRUE(std::filesystem::exists(Path("port")));
  Program elsewhere = Run({"--metrics_address=192.0.2.1:9464", "--check_config"});
  EXPECT_EQ(elsewhere.Wait(), 2);
  EXPECT_THAT(elsewhere.Output(),
              HasSubstr("--metrics_address: cannot listen on 192.0.2.1:9464: this machine does"));
  std::ofstream(Path("tenants")) << "tenants: {acne: {max_contexts: 1}}\n";
  std::ofstream(Path("tokens")) << "trainer " << std::string(64, 'a') << " acme register\n";
  Program unmatched = Run({"--check_config", absl::StrCat("--tenant_file=", Path("tenants")),
                           absl::StrCat("--token_file=", Path("tokens"))});
  EXPECT_EQ(unmatched.Wait(), 0);
  EXPECT_THAT(unmatched.Output(),
              AllOf(HasSubstr("warning: "), HasSubstr("tenants_without_callers=acne"),
                    HasSubstr("tenants_without_quota=acme"), HasSubstr("can start")));
}

// What a start would say, or end with, one after the other.
TEST_F(ProgramTest, CheckConfigNamesWhatAStartRefuses) {
  const std::string model = absl::StrCat(CHORALE_SOURCE_DIR, "/tests/golden/golden_tiny");
  namespace fs = std::filesystem;
  for (const char* folder : {"lock/LOCK", "reserve/RESERVE", "file", "text"}) {
    fs::create_directories(Path(folder));
  }
  std::ofstream(Path("file/datasets")) << "no folder";
  std::ofstream(Path("text/contexts.db")) << std::string(100'000, 'x');
  const std::string key = absl::StrCat("ab", std::string(62, '0'));
  fs::create_directories(Path("lost/datasets/ab"));
  std::ofstream(Path("lost/datasets/ab/" + key + ".dataset")) << "dataset";
  fs::create_symlink(Path("nowhere"), Path("dangling"));
  fs::create_symlink(Path("loop"), Path("loop"));
  const std::pair<std::string, const char*> cases[] = {
      {absl::StrCat("--models=", model, ",", model), "two models have the name 'golden_tiny'"},
      {"--data_dir=" + Path("lock"), "LOCK: is not a regular file"},
      {"--data_dir=" + Path("reserve"), "RESERVE: is not a regular file"},
      {"--data_dir=" + Path("file"), "datasets: is not a folder"},
      {"--data_dir=" + Path("text"), "contexts.db: a query failed: file is not a database"},
      {"--data_dir=" + Path("lost"), "contexts.db: is missing or empty, but the folder contains"},
      {"--data_dir=" + Path("dangling"), "dangling: cannot open: No such file"},
      {"--data_dir=" + Path("loop"), "loop: cannot open: Too many levels of symbolic links"},
      {"--data_dir=/proc/x", "/proc: cannot create a file"},
      {"--listen_address=unix:" + Path("lock"), "lock exists and is not a socket"},
      {"--listen_address=unix:" + Path("text/contexts.db"),
       "contexts.db exists and is not a socket"},
      {"--port_file=" + Path("lock"), "lock is a folder"},
      {"--port_file=" + Path(std::string(300, 'x')), "File name too long"},
      {"--threads=2000", "--threads must be from 0 to 1024"},
  };
  for (const auto& [flag, what] : cases) {
    Program check = Run({"--check_config", flag});
    EXPECT_EQ(check.Wait(), 2) << flag;
    EXPECT_THAT(check.Output(), HasSubstr(what)) << flag;
    Program start = Run({flag});
    EXPECT_THAT(start.Wait(), ::testing::AnyOf(1, 2)) << flag << ": " << start.Output();
  }
  for (const char* metrics : {"localhost:50999", "0.0.0.0:50999"}) {
    Program same = Run({"--check_config", "--listen_address=127.0.0.1:50999",
                        absl::StrCat("--metrics_address=", metrics)});
    EXPECT_EQ(same.Wait(), 2);
    EXPECT_THAT(same.Output(), HasSubstr("is also the address of --listen_address"));
  }
}

// Mistakes of the flags hide none of the files that they name.
TEST_F(ProgramTest, NoStageOfTheCheckHidesAnother) {
  std::ofstream(Path("server.yaml")) << "max_paths: none\n";
  std::ofstream(Path("tokens")) << "a\nb\n";
  std::ofstream(Path("data")) << "no folder";
  Program check =
      Run({"--check_config", "--config=" + Path("server.yaml"), "--threads=2000",
           "--token_file=" + Path("tokens"), "--models=/nowhere/m,/nowhere/n",
           "--tls_certificate=/nowhere/c", "--tls_key=/nowhere/k", "--memory_limit_mib=30"});
  EXPECT_EQ(check.Wait(), 2);
  EXPECT_THAT(check.Output(),
              AllOf(HasSubstr("max_paths: \"none\""), HasSubstr("--threads must be"),
                    HasSubstr("tokens: line 1: "), HasSubstr("tokens: line 2: "),
                    HasSubstr("/nowhere/c: cannot be read"),
                    HasSubstr("/nowhere/k: cannot be read"), HasSubstr("--data_dir: ")));
  EXPECT_THAT(check.Output(),
              AllOf(HasSubstr("the model in /nowhere/m: "), HasSubstr("the model in /nowhere/n: "),
                    HasSubstr("--memory_limit_mib=30 is too low")));
}

TEST_F(ProgramTest, AReloadSaysWhatTheNextStartWouldRefuse) {
  const std::string file = Path("server.yaml");
  std::ofstream(file) << "max_paths: 5\n";
  setenv("CHORALE_CUDA_LIBRARY", Path("none.so").c_str(), 1);
  Program program(Path("reloading"),
                  {"--config=" + file, "--port_file=" + Path("port"), "--lame_duck=0s",
                   absl::StrCat("--models=", CHORALE_SOURCE_DIR, "/tests/golden/golden_tiny"),
                   "--data_dir=" + Path("data"), "--listen_address=127.0.0.1:0",
                   "--metrics_address=127.0.0.1:0"});
  ASSERT_TRUE(program.WaitForOutput("serving backend=")) << program.Output();
  const std::pair<const char*, const char*> cases[] = {
      {"memory_limit_mib: 300\ncontext_pool_mib: 900\n", "--memory_limit_mib=300 is too low: "},
      {"backend: cuda\n", "--backend=cuda: there is no "},
      {"threads: 2000\n", "threads must be from 0 to 1024"},
  };
  for (const auto& [text, what] : cases) {
    std::ofstream(file) << text;
    program.Signal(SIGHUP);
    EXPECT_TRUE(program.WaitForOutput(what)) << text << program.Output();
  }
  unsetenv("CHORALE_CUDA_LIBRARY");
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

TEST_F(ProgramTest, ATruncatedModelEndsWithTwoAndIsNamed) {
  std::filesystem::copy(absl::StrCat(CHORALE_SOURCE_DIR, "/tests/golden/golden_tiny"),
                        Path("model"));
  const std::string weights = Path("model/model.safetensors");
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) / 2);
  Program program = Run({absl::StrCat("--models=", Path("model"))});
  EXPECT_EQ(program.Wait(), 2) << program.Output();
  EXPECT_THAT(program.Output(), HasSubstr("model.safetensors"));
  EXPECT_THAT(program.Output(), HasSubstr("start_failed"));
}

TEST_F(ProgramTest, AModelFolderThatIsNotThereIsNamedAndNothingIsDrained) {
  const std::string folder = Path("nope");
  Program program = Run({absl::StrCat("--models=", folder)});
  EXPECT_EQ(program.Wait(), 2) << program.Output();
  EXPECT_THAT(program.Output(), HasSubstr(absl::StrCat("cannot load the model in ", folder, ":")));
  EXPECT_THAT(program.Output(), Not(HasSubstr("drain")));
}

TEST_F(ProgramTest, ACorruptDatabaseEndsWithOneAndIsNamed) {
  std::filesystem::create_directories(Path("data"));
  std::ofstream(Path("data/contexts.db")) << std::string(100'000, 'x');
  Program program = Run();
  EXPECT_EQ(program.Wait(), 1) << program.Output();
  EXPECT_THAT(program.Output(), HasSubstr("contexts.db"));
}

}  // namespace
}  // namespace chorale
