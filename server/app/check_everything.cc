#include "server/app/check_everything.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file_descriptor.h"
#include "engine/store/context_store.h"
#include "server/app/open_backend.h"
#include "server/memory/available_resources.h"
#include "server/memory/machine_plan.h"
#include "server/memory/memory_plan.h"
#include "server/models/load_models.h"
#include "server/net/address.h"
#include "server/net/listen.h"

namespace chorale {
namespace {

constexpr absl::string_view kListen = "--listen_address";
constexpr absl::string_view kMetrics = "--metrics_address";

std::string WithPort(const std::string& host, int port) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

// Whether this machine has the address. On any port: a running server may have the right one.
// Sockets that listen on that port, if it has; none for what CheckFiles has looked at.
std::vector<FileDescriptor> TryAddress(absl::string_view flag, const std::string& text,
                                       StartCheck* check) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (!address.ok() || !address->path.empty()) return {};
  const std::string any_port = WithPort(address->host, 0);
  absl::StatusOr<std::vector<FileDescriptor>> listens = ListenOn(any_port);
  if (listens.ok()) return *std::move(listens);
  check->mistakes.Add(absl::StrCat(
      flag, ": ", absl::StrReplaceAll(listens.status().message(), {{any_port, text}})));
  return {};
}

// `sockets` are those of TryAddress.
bool IsSamePlace(const std::string& listen, const std::vector<FileDescriptor>& sockets,
                 const std::string& metrics) {
  const absl::StatusOr<Address> first = ParseAddress(listen);
  const absl::StatusOr<Address> second = ParseAddress(metrics);
  if (!first.ok() || !second.ok() || first->path != second->path) return false;
  if (!first->path.empty()) return true;
  if (first->port != second->port || first->port == 0 || sockets.empty()) return false;
  // Whether two hosts share an address is for the kernel to say: on a port that the first has.
  return !ListenOn(WithPort(second->host, LocalPort(sockets.front()))).ok();
}

void CheckAddresses(const ServerOptions& options, StartCheck* check) {
  const std::string& metrics = options.metrics_address;
  const auto listens = TryAddress(kListen, options.listen_address, check);
  if (metrics.empty()) return;
  const size_t before = check->mistakes.lines().size();
  TryAddress(kMetrics, metrics, check);
  if (check->mistakes.lines().size() == before &&
      IsSamePlace(options.listen_address, listens, metrics)) {
    check->mistakes.Add(absl::StrCat(kMetrics, ": ", metrics, " is also the address of ", kListen));
  }
}

void CheckStore(const std::string& folder, StartCheck* check) {
  if (folder.empty()) return;  // a mistake of the flags
  for (const std::string& line : check->mistakes.lines()) {
    if (absl::StartsWith(line, "--data_dir: ")) return;  // it is named already
  }
  for (const absl::Status& found : CheckContextStore(folder)) {
    check->mistakes.Add(absl::StrCat("--data_dir: ", found.message()));
  }
}

void CheckPlan(const ProgramOptions& options, PoolSizes pools, const BackendInfo& backend,
               StartCheck* check) {
  if (options.server.memory_limit_found) return;
  pools.registration = options.engine.registered_tables_bytes;
  check->mistakes.Add(CheckMemoryPlan(options.server, pools, backend));
}

void CheckBackend(const ProgramOptions& options, StartCheck* check) {
  const absl::StatusOr<std::unique_ptr<Backend>> backend = OpenBackend(options.engine);
  if (!backend.ok()) return check->mistakes.Add(backend.status());
  CheckPlan(options,
            {.context = (*backend)->context_pool_bytes(),
             .buffer = (*backend)->buffer_pool_bytes(),
             .encode = (*backend)->encode_pool_bytes(),
             .host_context = (*backend)->host_context_pool_bytes()},
            (*backend)->info(), check);
}

// Without opening it.
void CheckNextBackend(const ProgramOptions& options, bool on_gpu, StartCheck* check) {
  check->mistakes.Add(CheckBackendIsThere(options.engine));
  const BackendChoice choice = options.engine.backend;
  if (choice == BackendChoice::kCuda || (choice == BackendChoice::kAuto && on_gpu)) {
    CheckPlan(options, {.host_context = options.engine.host_context_pool_bytes},
              {"cuda", /*device=*/"", /*threads=*/0}, check);
  } else {
    const cpu::BackendOptions cpu = CpuOptions(options.engine);
    CheckPlan(options, {.context = cpu.context_pool_bytes, .buffer = cpu.buffer_pool_bytes},
              {"cpu", /*device=*/"", cpu.threads}, check);
  }
}

// CheckFiles, and what else takes little. Fits the options to the machine.
StartCheck CheckPlaces(const AvailableResources& resources, ProgramOptions* options) {
  StartCheck check = CheckFiles(*options, resources);
  CheckAddresses(options->server, &check);
  CheckStore(options->engine.data_dir, &check);
  // Its error is among those of CheckFiles.
  (void)FitToMachine(resources, WeightBytes(options->engine.models), options);
  return check;
}

}  // namespace

StartCheck CheckEverything(ProgramOptions options) {
  StartCheck check = CheckPlaces(FindResources(), &options);
  check.mistakes.Add(LoadModels(options.engine.models, [] { return false; }).status());
  CheckBackend(options, &check);
  return check;
}

StartCheck CheckNextStart(ProgramOptions options, bool on_gpu) {
  StartCheck check = CheckPlaces(FindResources().WithoutOthers(), &options);
  CheckNextBackend(options, on_gpu, &check);
  return check;
}

}  // namespace chorale
