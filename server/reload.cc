#include "server/reload.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/config/mistakes.h"
#include "server/models/model_folders.h"

namespace chorale {
namespace {

// Everything else needs a restart: pools, threads and ports are taken at the start, and gRPC has
// the limits of messages and connections.
constexpr absl::string_view kReloadable[] = {
    "log_level",    "max_categories", "max_context_rows", "max_dataset_mib",
    "max_features", "max_orders",     "max_paths",        "max_query_rows",
    "max_values",   "models",         "slow_call",
};

}  // namespace

bool IsReloadable(absl::string_view flag) { return absl::c_linear_search(kReloadable, flag); }

Reloader::Reloader(ConfigurationSources sources, Configuration configuration,
                   std::string models_version, LoadModels load_models, CheckStart check_start,
                   Server* server)
    : sources_(std::move(sources)),
      current_(std::move(configuration)),
      models_version_(std::move(models_version)),
      load_models_(std::move(load_models)),
      check_start_(std::move(check_start)),
      server_(server) {}

void Reloader::Reload() {
  AccessControl::Reloaded security = server_->ReloadSecurity();
  absl::StatusOr<Configuration> next = LoadConfiguration(sources_, current_.file_entries);
  std::vector<LogField> fields;
  Mistakes refused;
  for (const absl::Status& status : security.refusals) refused.Add(status);
  refused.Add(next.ok() ? Apply(*next, &fields) : next.status());
  absl::c_move(security.changes, std::back_inserter(fields));
  const bool warns = !security.warnings.empty();
  absl::c_move(security.warnings, std::back_inserter(fields));
  // What was not refused may still name what a start cannot use.
  std::vector<std::string> start_errors;
  if (next.ok()) {
    const StartCheck start = check_start_(next->options);
    absl::c_copy_if(start.mistakes.lines(), std::back_inserter(start_errors),
                    [&](const std::string& mistake) {
                      return !absl::c_linear_search(refused.lines(), mistake);
                    });
  }
  if (!start_errors.empty()) {
    fields.push_back({"start_errors", absl::StrJoin(start_errors, "; ")});
  }
  server_->metrics()->ConfigReloaded(refused.empty());
  if (refused.empty()) {
    LogEvent(start_errors.empty() && !warns ? spdlog::level::info : spdlog::level::warn, "reloaded",
             fields);
    return;
  }
  fields.insert(fields.begin(), {"reason", absl::StrJoin(refused.lines(), "; ")});
  LogEvent(spdlog::level::err, "reload_rejected", fields);
}

absl::Status Reloader::UpdateModels(const std::vector<std::string>& entries) {
  std::string version = ModelsVersion(entries);
  if (version == models_version_ && server_->SkippedModels().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<Model> models, load_models_(entries));
  RETURN_IF_ERROR(server_->UpdateModels(models));
  models_version_ = std::move(version);
  return absl::OkStatus();
}

absl::Status Reloader::Apply(const Configuration& next, std::vector<LogField>* fields) {
  // The part that can fail comes first.
  RETURN_IF_ERROR(UpdateModels(next.options.engine.models));
  std::vector<std::string> changed;
  std::vector<std::string> restart_required;
  for (const auto& [flag, value] : next.values) {
    std::string& current = current_.values.at(flag);
    if (value == current) continue;
    // What needs a restart is reported each time, until there was one.
    (IsReloadable(flag) ? changed : restart_required).push_back(flag);
    if (IsReloadable(flag)) current = value;
  }
  SetLogLevel(next.options.log_level);
  server_->SetSlowCall(next.options.server.slow_call);
  Limits limits = next.options.server.limits;
  // This follows from --max_message_mib, which needs a restart.
  limits.max_response_bytes = current_.options.server.limits.max_response_bytes;
  server_->SetLimits(limits);
  current_.file_entries = next.file_entries;
  if (!changed.empty()) fields->push_back({"changed", absl::StrJoin(changed, ",")});
  if (!restart_required.empty())
    fields->push_back({"restart_required", absl::StrJoin(restart_required, ",")});
  return absl::OkStatus();
}

}  // namespace chorale
