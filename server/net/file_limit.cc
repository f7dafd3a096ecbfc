#include "server/net/file_limit.h"

#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace chorale {
namespace {

// More than any machine has connections. Where the hard limit is "infinity", libraries that make a
// table of all possible descriptors would otherwise make one of a billion.
constexpr rlim_t kMostFiles = 1 << 20;

// For data files, the HTTP endpoint's connections, libraries and epoll instances.
constexpr int64_t kFilesForTheRest = 256;

// Of a server with a few models and connections.
constexpr int64_t kFewestFiles = 64;

// gRPC has one descriptor of a connection, the listener another.
constexpr int64_t kFilesPerConnection = 2;

}  // namespace

int64_t RaiseFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  rlimit raised = limit;
  raised.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kMostFiles));
  const bool was_raised = setrlimit(RLIMIT_NOFILE, &raised) == 0;
  return static_cast<int64_t>(std::min(was_raised ? raised.rlim_cur : limit.rlim_cur, kMostFiles));
}

absl::Status CheckFileLimit(int64_t file_limit) {
  if (file_limit >= kFewestFiles) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the process may open only ", file_limit,
                                                 " files (ulimit -n); the server requires ",
                                                 kFewestFiles, " or more"));
}

int64_t ConnectionsThatFit(int64_t file_limit) {
  return (file_limit - std::min(kFilesForTheRest, file_limit / 2)) / kFilesPerConnection;
}

}  // namespace chorale
