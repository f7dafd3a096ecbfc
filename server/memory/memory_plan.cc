#include "server/memory/memory_plan.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/memory/memory_watch.h"

namespace chorale {
namespace {

struct Part {
  const char* name;
  int64_t bytes;
};

int64_t Mebibytes(double bytes) { return static_cast<int64_t>(std::ceil(bytes / (1 << 20))); }

std::vector<Part> HostMemory(const ServerOptions& options, const PoolSizes& pools,
                             const BackendInfo& backend) {
  std::vector<Part> parts;
  if (backend.backend == "cpu") {
    parts = {{"--context_pool_mib", pools.context}, {"--buffer_pool_mib", pools.buffer}};
  } else {
    parts = {{"--host_context_pool_mib", pools.host_context}};
  }
  parts.push_back({"--registration_memory_mib", options.registration_memory_bytes});
  parts.push_back({"tables kept for their first request", pools.registration});
  return parts;
}

}  // namespace

absl::Status CheckMemoryPlan(const ServerOptions& options, const PoolSizes& pools,
                             const BackendInfo& backend) {
  if (options.memory_limit_bytes == 0) return absl::OkStatus();
  const std::vector<Part> parts = HostMemory(options, pools, backend);
  const int64_t planned =
      std::accumulate(parts.begin(), parts.end(), int64_t{0},
                      [](int64_t sum, const Part& part) { return sum + part.bytes; });
  const auto bytes = static_cast<double>(planned);
  if (bytes <= kPlannedMemoryShare * static_cast<double>(options.memory_limit_bytes)) {
    return absl::OkStatus();
  }
  const std::string list = absl::StrJoin(parts, ", ", [](std::string* text, const Part& part) {
    absl::StrAppend(text, part.name, " ", Mebibytes(static_cast<double>(part.bytes)));
  });
  return absl::InvalidArgumentError(absl::StrCat(
      "--memory_limit_mib=", options.memory_limit_bytes >> 20, " is too low: ", Mebibytes(bytes),
      " MiB are planned for (", list, "), which requires a limit of ",
      Mebibytes(bytes / kPlannedMemoryShare), " or more"));
}

}  // namespace chorale
