#include "server/memory/machine_plan.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/backend/cpu/backend.h"
#include "server/memory/memory_watch.h"
#include "server/memory/own_memory_limit.h"
#include "server/models/model_folders.h"

namespace chorale {
namespace {

constexpr int64_t kMiB = 1 << 20;

constexpr char kAskedFor[] = "--memory_limit_mib";

// Of a server without models and pools: code, gRPC, threads, database.
constexpr int64_t kProgramBytes = 64 * kMiB;

// One thing that takes host memory. The least is what small tables need: 32 MiB of contexts are
// 2,700 rows of the default model.
struct Pool {
  const char* flag;  // null: none
  int64_t* bytes;
  int64_t usual;
  int64_t least;
  bool given = false;
};

// Whether the pools that flags have set lie in host memory, and not on a GPU. Without a look at the
// GPU: what is larger than the host's memory does not lie there.
bool PoolsAreOnHost(const EngineSetup& engine, const MemoryBound& memory) {
  if (engine.backend != BackendChoice::kAuto) return engine.backend == BackendChoice::kCpu;
  return engine.context_pool_bytes + engine.buffer_pool_bytes <= memory.bytes;
}

std::vector<Pool> PoolsOf(bool on_host, ProgramOptions* options) {
  EngineSetup& engine = options->engine;
  int64_t& registration = options->server.registration_memory_bytes;
  int64_t& tables = engine.registered_tables_bytes;
  int64_t& host_contexts = engine.host_context_pool_bytes;
  std::vector<Pool> pools = {{"registration_memory_mib", &registration, registration, 8 * kMiB},
                             {nullptr, &tables, tables, 2 * kMiB}};
  if (on_host) {
    int64_t& contexts = engine.cpu_context_pool_bytes;
    int64_t& buffers = engine.cpu_buffer_pool_bytes;
    pools.push_back({"context_pool_mib", &contexts, contexts, 32 * kMiB});
    pools.push_back({"buffer_pool_mib", &buffers, buffers, 8 * kMiB});
    if (engine.context_pool_bytes > 0) contexts = engine.context_pool_bytes;
    if (engine.buffer_pool_bytes > 0) buffers = engine.buffer_pool_bytes;
  } else {
    pools.push_back({"host_context_pool_mib", &host_contexts, host_contexts, 0});
  }
  for (Pool& pool : pools) {
    pool.given = pool.flag != nullptr && options->given.contains(pool.flag);
  }
  if (on_host) {  // there 0 asks for the default
    pools[2].given = engine.context_pool_bytes > 0;
    pools[3].given = engine.buffer_pool_bytes > 0;
  }
  return pools;
}

// Divides `room` among the pools that were not given. Returns what is missing; 0: nothing.
int64_t Divide(int64_t room, std::vector<Pool>* pools) {
  int64_t usual = 0;
  int64_t least = 0;
  for (const Pool& pool : *pools) {
    if (pool.given) {
      room -= *pool.bytes;
    } else {
      usual += pool.usual;
      least += std::min(pool.least, pool.usual);
    }
  }
  const double share =
      usual == 0 ? 0 : std::clamp(static_cast<double>(room) / static_cast<double>(usual), 0.0, 1.0);
  for (const Pool& pool : *pools) {
    if (pool.given) continue;
    const auto part = static_cast<int64_t>(share * static_cast<double>(pool.usual));
    *pool.bytes = std::max(part / kMiB * kMiB, std::min(pool.least, pool.usual));
  }
  return std::max<int64_t>(0, least - room);
}

int64_t PlannedPart(int64_t bytes) {
  return static_cast<int64_t>(kPlannedMemoryShare * static_cast<double>(bytes));
}

// Says what is short of what.
std::string Shortage(const MemoryBound& memory, int64_t own, int64_t missing) {
  const auto needed = static_cast<int64_t>(static_cast<double>(missing) / kPlannedMemoryShare);
  return absl::StrCat("the process may use ", memory.bytes / kMiB, " MiB of memory (",
                      memory.source, "), but needs about ", (memory.bytes + needed) / kMiB + 1,
                      " MiB: ", own / kMiB,
                      " MiB for the program and its models, and the rest for pools and requests");
}

// Takes back a --memory_limit_mib that could never be reached. Returns the warning; empty: none.
std::string RefuseHighLimit(const AvailableResources& resources, ServerOptions* server) {
  const int64_t asked = server->memory_limit_bytes;
  const MemoryBound& bound = resources.cgroup.known() ? resources.cgroup : resources.machine;
  if (!bound.known() || asked <= bound.bytes) return "";
  server->memory_limit_bytes = 0;
  return absl::StrCat("--memory_limit_mib=", asked / kMiB, " exceeds ", bound.bytes / kMiB,
                      " MiB (", bound.source, "), and is ignored");
}

void PlanThreads(const AvailableResources& resources, ProgramOptions* options, MachinePlan* plan) {
  int& threads = options->engine.threads;
  const bool given = threads > 0;
  if (!given) threads = std::min(resources.threads(), cpu::kMaxThreads);
  plan->fields.push_back({"processors", resources.processors.processors});
  plan->fields.push_back({"processors_from", resources.processors.source});
  plan->fields.push_back({"threads", int64_t{threads}});
  // Those of a GPU server have little else to do; the others should leave most to the backend.
  options->engine.summary_threads = std::clamp(resources.threads() / 4, 1, 8);
}

}  // namespace

absl::StatusOr<MachinePlan> FitToMachine(const AvailableResources& resources, int64_t weight_bytes,
                                         ProgramOptions* options) {
  MachinePlan plan;
  ServerOptions& server = options->server;
  const bool none_asked =
      options->given.contains("memory_limit_mib") && server.memory_limit_bytes == 0;
  plan.limit_warning = RefuseHighLimit(resources, &server);
  MemoryBound memory = resources.memory();
  bool is_limit = resources.limit.known() && memory.source == resources.limit.source;
  if (server.memory_limit_bytes > 0 &&
      (!memory.known() || server.memory_limit_bytes < memory.bytes)) {
    memory = {server.memory_limit_bytes, kAskedFor};
    is_limit = true;
  }
  if (resources.cgroup.known() && !none_asked && server.memory_limit_bytes == 0) {
    server.memory_limit_bytes = resources.cgroup.bytes;
    server.memory_limit_found = true;
  }
  server.own_memory_limit = server.memory_limit_bytes == 0 && !none_asked;
  const bool on_host = PoolsAreOnHost(options->engine, memory);
  std::vector<Pool> pools = PoolsOf(on_host, options);
  const int64_t own = kProgramBytes + OwnMemoryLimit::kCopiesOfWeights * weight_bytes;
  if (memory.known()) {
    if (const int64_t missing = Divide(PlannedPart(memory.bytes) - own, &pools); missing > 0) {
      plan.warning = Shortage(memory, own, missing);
      const bool any_given =
          std::any_of(pools.begin(), pools.end(), [](const Pool& pool) { return pool.given; });
      if (is_limit && !any_given) {
        const bool lasts =
            memory.source == kAskedFor ||
            missing > PlannedPart(resources.lasting_limit.bytes) - PlannedPart(memory.bytes);
        return absl::Status(
            lasts ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kUnavailable,
            plan.warning);
      }
    }
    plan.fields = {{"memory_mib", memory.bytes / kMiB}, {"memory_from", memory.source}};
  }
  if (on_host && !options->given.contains("host_context_pool_mib")) {  // should there be a GPU
    int64_t& host_contexts = options->engine.host_context_pool_bytes;
    host_contexts = std::min(host_contexts, options->engine.cpu_context_pool_bytes);
  }
  PlanThreads(resources, options, &plan);
  for (const Pool& pool : pools) {
    if (pool.flag != nullptr) plan.fields.push_back({pool.flag, *pool.bytes / kMiB});
  }
  if (server.own_memory_limit) {
    plan.fields.push_back(
        {"memory_limit_mib", absl::StrCat("in_use+", OwnMemoryLimit::kBeside / kMiB)});
  } else {
    plan.fields.push_back({"memory_limit_mib", server.memory_limit_bytes / kMiB});
  }
  return plan;
}

MemoryShares DivideAnew(const MemoryBound& cgroup, int64_t weight_bytes, bool on_host,
                        const ProgramOptions& configured, const ProgramOptions& planned) {
  ProgramOptions options = configured;
  EngineSetup& engine = options.engine;
  engine.backend = on_host ? BackendChoice::kCpu : BackendChoice::kCuda;
  const auto size = [](int64_t given, int64_t usual) { return given > 0 ? given : usual; };
  engine.cpu_context_pool_bytes =
      size(planned.engine.context_pool_bytes, planned.engine.cpu_context_pool_bytes);
  engine.cpu_buffer_pool_bytes =
      size(planned.engine.buffer_pool_bytes, planned.engine.cpu_buffer_pool_bytes);
  engine.context_pool_bytes = 0;
  engine.buffer_pool_bytes = 0;
  engine.host_context_pool_bytes = planned.engine.host_context_pool_bytes;
  engine.registered_tables_bytes = planned.engine.registered_tables_bytes;
  options.server.registration_memory_bytes = planned.server.registration_memory_bytes;
  for (const char* const flag : {"registration_memory_mib", "host_context_pool_mib"}) {
    options.given.erase(flag);
  }
  // One that was no limit at the start is none now.
  if (planned.server.own_memory_limit) options.server.memory_limit_bytes = 0;
  AvailableResources resources;
  resources.limit = cgroup;
  resources.lasting_limit = cgroup;
  resources.cgroup = cgroup;
  const absl::StatusOr<MachinePlan> plan = FitToMachine(resources, weight_bytes, &options);
  return {.limit_bytes = options.server.memory_limit_bytes,
          .own_memory_limit = options.server.own_memory_limit,
          .pools = {.context = engine.cpu_context_pool_bytes,
                    .buffer = engine.cpu_buffer_pool_bytes,
                    .host_context = engine.host_context_pool_bytes,
                    .registration = engine.registered_tables_bytes},
          .registration_memory_bytes = options.server.registration_memory_bytes,
          .warning = plan.ok() ? plan->warning : std::string(plan.status().message())};
}

int64_t WeightBytes(const std::vector<std::string>& models) {
  int64_t bytes = 0;
  for (const std::string& folder : FindModelFolders(models)) {
    std::error_code error;
    const auto size = std::filesystem::file_size(absl::StrCat(folder, "/model.safetensors"), error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace chorale
