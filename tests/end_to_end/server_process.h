// The real chorale-server binary as a child process.
#ifndef CHORALE_TESTS_END_TO_END_SERVER_PROCESS_H_
#define CHORALE_TESTS_END_TO_END_SERVER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/sanitized.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace chorale::end_to_end {

// How a process ended.
struct Exit {
  int code = 0;    // exit status, when signal is 0
  int signal = 0;  // the signal that ended it, or 0
};

struct ServerOptions {
  std::vector<std::string> models;      // folders; the first is the default
  std::string data_dir = {};            // empty: a temporary one of its own
  std::vector<std::string> flags = {};  // further ones, "--threads=1"
  bool tls = false;  // it serves once the port file is there: its health is not asked
  std::vector<std::string> environment = {};  // on top of this program's, "NAME=value"
  int64_t file_limit = 0;                     // of open files; 0: this program's
  std::vector<std::string> cgroups = {};      // folders of cgroups that it is to be in
};

// What the servers of this program run on, unless a test's flags say otherwise:
// CHORALE_TEST_BACKEND if that is set, else "cpu". CHORALE_TEST_SERVER names another program than
// the one of this build.
std::string TestBackend();

// Whether that is a GPU that the processor emulates, thousands of times slower.
bool IsEmulated();

// One server. Killed and reaped when destroyed; its log is printed if the test has failed by then.
// Thread-safe but for Spawn, the destructor and Wait, which belong to the thread that made it (the
// kernel kills the child when that thread ends).
class ServerProcess {
 public:
  // Starts the binary without waiting for anything.
  static std::unique_ptr<ServerProcess> Spawn(const ServerOptions& options);

  // Starts it and waits until its health service says SERVING and its log says it, too: what it has
  // printed before is there then. Null, with a failure added, when that does not come.
  static std::unique_ptr<ServerProcess> Start(const ServerOptions& options);

  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // "127.0.0.1:port" of the API and of the metrics page.
  const std::string& address() const { return address_; }
  const std::string& metrics_address() const { return metrics_address_; }
  const std::string& data_dir() const { return data_dir_; }

  void Signal(int signal) const;
  // Waits for the end of the process; nothing when it still runs after `timeout`.
  std::optional<Exit> Wait(absl::Duration timeout);
  // Waits for the end of the process. Its exit code; -1, with a failure added, when it still runs
  // after kPatience or a signal has ended it.
  int ExitCode();
  // Signal(SIGKILL) and Wait.
  void Kill();
  // SIGTERM; adds a failure unless ExitCode is 0.
  void Terminate();

  // Bytes of memory that the process has resident (VmRSS), 0 when it has ended.
  int64_t ResidentBytes() const;

  // What it has printed so far, standard output and error together.
  std::string log() const;
  // Expects it to print `text`, and waits for that: a line may come a moment after what it is
  // about.
  void ExpectLog(absl::string_view text) const;

 private:
  ServerProcess() = default;
  // Learns the ports from the port file and the log. False while they are not there.
  bool ReadPorts();

  TempFolder folder_;  // log, port file, and the data when no data_dir was given
  std::string data_dir_;
  std::string address_;
  std::string metrics_address_;
  pid_t pid_ = 0;
  std::optional<Exit> exit_;
};

// What the health service of a server says: "SERVING", "NOT_SERVING", or the error of the call.
std::string Health(const std::string& address, absl::Duration timeout = absl::Seconds(2));

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_SERVER_PROCESS_H_
