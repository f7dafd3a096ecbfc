#include "tests/end_to_end/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

#ifndef CHORALE_SERVER_BINARY
#error "CHORALE_SERVER_BINARY must be the path of chorale-server"
#endif

namespace chorale::end_to_end {
namespace {

// A variable of the environment, or `otherwise` where it is not set.
std::string Environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

// Of the strings, for exec.
std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Replaces this process, a fresh copy of the test, by the server. Nothing here may allocate.
[[noreturn]] void Become(const std::vector<char*>& arguments, const std::vector<char*>& environment,
                         int64_t file_limit, const std::vector<std::string>& cgroup_files,
                         int log) {
  for (const std::string& file : cgroup_files) {
    const int procs = open(file.c_str(), O_WRONLY | O_CLOEXEC);
    if (procs < 0 || write(procs, "0", 1) != 1) _exit(126);  // 0: this process
  }
  const rlimit files = {static_cast<rlim_t>(file_limit), static_cast<rlim_t>(file_limit)};
  if (file_limit > 0) setrlimit(RLIMIT_NOFILE, &files);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // no orphan survives a test that crashes or is killed
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execve(arguments[0], arguments.data(), environment.data());
  _exit(127);
}

std::vector<std::string> CommandLine(const ServerOptions& options, const std::string& data_dir,
                                     const std::string& port_file) {
  std::vector<std::string> arguments = {
      Environment("CHORALE_TEST_SERVER", CHORALE_SERVER_BINARY),
      "--backend=" + TestBackend(),
      "--listen_address=127.0.0.1:0",
      "--metrics_address=127.0.0.1:0",
      "--lame_duck=0s",
      "--queue_wait=10m",  // a busy machine makes calls wait for long
      absl::StrCat("--port_file=", port_file),
      absl::StrCat("--data_dir=", data_dir),
      absl::StrCat("--models=", absl::StrJoin(options.models, ",")),
  };
  // An emulated GPU clears all of its memory at the start.
  if (IsEmulated())
    arguments.insert(arguments.end(), {"--context_pool_mib=16", "--buffer_pool_mib=16",
                                       "--host_context_pool_mib=4"});
  arguments.insert(arguments.end(), options.flags.begin(), options.flags.end());
  return arguments;
}

// This program's environment, with these variables instead of its own of the same names.
std::vector<std::string> EnvironmentWith(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  for (char** inherited = environ; *inherited != nullptr; ++inherited) {
    const std::string name =
        absl::StrCat(std::string(*inherited, std::strcspn(*inherited, "=")), "=");
    const bool replaced = std::any_of(more.begin(), more.end(), [&](const std::string& variable) {
      return absl::StartsWith(variable, name);
    });
    if (!replaced) all.emplace_back(*inherited);
  }
  return all;
}

}  // namespace

std::string TestBackend() { return Environment("CHORALE_TEST_BACKEND", "cpu"); }

bool IsEmulated() { return absl::StrContains(Environment("CHORALE_CUDA_LIBRARY", ""), "emulated"); }

std::unique_ptr<ServerProcess> ServerProcess::Spawn(const ServerOptions& options) {
  std::unique_ptr<ServerProcess> server(new ServerProcess());
  server->data_dir_ = options.data_dir.empty() ? server->folder_ / "data" : options.data_dir;
  std::vector<std::string> arguments =
      CommandLine(options, server->data_dir_, server->folder_ / "port");
  const std::vector<char*> argument_pointers = Pointers(arguments);
  std::vector<std::string> environment = EnvironmentWith(options.environment);
  const std::vector<char*> environment_pointers = Pointers(environment);
  const int log =
      open((server->folder_ / "log").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  std::vector<std::string> cgroup_files;
  for (const std::string& folder : options.cgroups)
    cgroup_files.push_back(folder + "/cgroup.procs");
  server->pid_ = fork();
  if (server->pid_ == 0) {
    Become(argument_pointers, environment_pointers, options.file_limit, cgroup_files, log);
  }
  close(log);
  if (server->pid_ < 0) ADD_FAILURE() << "fork failed";
  return server;
}

std::unique_ptr<ServerProcess> ServerProcess::Start(const ServerOptions& options) {
  std::unique_ptr<ServerProcess> server = Spawn(options);
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline) {
    if (const std::optional<Exit> exit = server->Wait(absl::ZeroDuration())) {
      ADD_FAILURE() << "the server ended before it served: exit code " << exit->code << ", signal "
                    << exit->signal << "\n"
                    << server->log();
      return nullptr;
    }
    if (server->ReadPorts() && (options.tls || Health(server->address_) == "SERVING") &&
        absl::StrContains(server->log(), "serving")) {
      return server;
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  ADD_FAILURE() << "the server does not serve\n" << server->log();
  return nullptr;
}

ServerProcess::~ServerProcess() {
  Kill();
  if (::testing::Test::HasFailure()) {
    std::fprintf(stderr, "---- log of the server\n%s----\n", log().c_str());
  }
}

void ServerProcess::Signal(int signal) const {
  if (pid_ > 0 && !exit_.has_value()) kill(pid_, signal);
}

std::optional<Exit> ServerProcess::Wait(absl::Duration timeout) {
  if (pid_ <= 0) return exit_;
  Eventually(
      [this] {
        int status = 0;
        if (!exit_.has_value() && waitpid(pid_, &status, WNOHANG) == pid_) {
          exit_ = Exit{.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                       .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
        }
        return exit_.has_value();
      },
      timeout);
  return exit_;
}

int ServerProcess::ExitCode() {
  const std::optional<Exit> exit = Wait(kPatience);
  if (!exit.has_value()) {
    ADD_FAILURE() << "the server still runs after " << kPatience;
    return -1;
  }
  EXPECT_EQ(exit->signal, 0);
  return exit->code;
}

void ServerProcess::Kill() {
  Signal(SIGKILL);
  Wait(kPatience);
}

void ServerProcess::Terminate() {
  Signal(SIGTERM);
  EXPECT_EQ(ExitCode(), 0) << log();
}

int64_t ServerProcess::ResidentBytes() const {
  const std::string status = ReadFile(absl::StrCat("/proc/", pid_, "/status"));
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, "VmRSS:")) continue;
    absl::ConsumeSuffix(&line, "kB");
    int64_t kilobytes = 0;
    if (absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &kilobytes)) return kilobytes * 1024;
  }
  return 0;
}

std::string ServerProcess::log() const { return ReadFile(folder_ / "log"); }

void ServerProcess::ExpectLog(absl::string_view text) const {
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(log(), text); }))
      << "the server does not print: " << text << "\n"
      << log();
}

bool ServerProcess::ReadPorts() {
  const std::string port(absl::StripAsciiWhitespace(ReadFile(folder_ / "port")));
  const std::string text = log();
  const std::string key_text = "metrics_port=";
  const size_t key = text.find(key_text);
  if (port.empty() || key == std::string::npos) return false;
  const size_t begin = key + key_text.size();
  const size_t end = text.find_first_not_of("0123456789", begin);
  if (end == std::string::npos) return false;  // half a line
  address_ = absl::StrCat("127.0.0.1:", port);
  metrics_address_ = absl::StrCat("127.0.0.1:", text.substr(begin, end - begin));
  return true;
}

std::string Health(const std::string& address, absl::Duration timeout) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  grpc::CompletionQueue queue;
  // An empty HealthCheckRequest asks for the server as a whole.
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  grpc::ByteBuffer response;
  grpc::Status status;
  call->StartCall();
  call->Finish(&response, &status, &response);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return status.error_message();
  grpc::Slice bytes;
  if (!response.DumpToSingleSlice(&bytes).ok()) return "no answer";
  // HealthCheckResponse: field 1, status, as a varint.
  const std::string text(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  if (text == std::string("\x08\x01")) return "SERVING";
  if (text == std::string("\x08\x02")) return "NOT_SERVING";
  return "UNKNOWN";
}

}  // namespace chorale::end_to_end
