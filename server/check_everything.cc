#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/check_start.h"
#include "server/lifecycle/available_resources.h"
#include "server/listener/address.h"
#include "server/listener/listen.h"
#include "server/load_models.h"
#include "server/machine_plan.h"
#include "server/memory_plan.h"
#include "server/open_backend.h"

namespace chorale {
namespace {

// Whether this machine has the address. On any port: a running server may have the right one.
absl::Status TryAddress(absl::string_view flag, const std::string& text) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (!address.ok() || !address->path.empty()) return absl::OkStatus();  // CheckFiles has looked
  const bool ipv6 = absl::StrContains(address->host, ':');
  const std::string any_port =
      ipv6 ? absl::StrCat("[", address->host, "]:0") : absl::StrCat(address->host, ":0");
  const absl::Status listens = ListenOn(any_port).status();
  if (listens.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", absl::StrReplaceAll(listens.message(), {{any_port, text}})));
}

void CheckBackend(const ProgramOptions& options, StartCheck* check) {
  const absl::StatusOr<std::unique_ptr<Backend>> backend = OpenBackend(options.engine);
  if (!backend.ok()) return check->mistakes.Add(backend.status());
  if (options.server.memory_limit_found) return;
  const PoolSizes pools = {.context = (*backend)->context_pool_bytes(),
                           .buffer = (*backend)->buffer_pool_bytes(),
                           .encode = (*backend)->encode_pool_bytes(),
                           .host_context = (*backend)->host_context_pool_bytes(),
                           .registration = options.engine.registered_tables_bytes};
  check->mistakes.Add(CheckMemoryPlan(options.server, pools, (*backend)->info()));
}

}  // namespace

StartCheck CheckEverything(ProgramOptions options) {
  StartCheck check = CheckFiles(options);
  check.mistakes.Add(TryAddress("--listen_address", options.server.listen_address));
  if (!options.server.metrics_address.empty()) {
    check.mistakes.Add(TryAddress("--metrics_address", options.server.metrics_address));
  }
  check.mistakes.Add(LoadModels(options.engine.models, [] { return false; }).status());
  const absl::StatusOr<MachinePlan> plan =
      FitToMachine(FindResources(), WeightBytes(options.engine.models), &options);
  check.mistakes.Add(plan.status());
  CheckBackend(options, &check);
  return check;
}

}  // namespace chorale
