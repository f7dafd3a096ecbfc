// Takes over a changed configuration while the server runs.
#ifndef CHORALE_SERVER_RELOAD_H_
#define CHORALE_SERVER_RELOAD_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/model/model.h"
#include "server/check_start.h"
#include "server/configuration.h"
#include "server/server.h"
#include "server/telemetry/logging.h"

namespace chorale {

// Whether a new value of the flag counts without a restart.
bool IsReloadable(absl::string_view flag);

// A configuration that is wrong in any way changes no flag; of the files of certificates, tokens
// and tenants each counts by itself, so that a mistake elsewhere keeps no token from being revoked.
// One line of the log says what was changed, which other flags need a restart, and what was refused
// and why; the metrics count.
//
// Thread contract: one thread at a time.
class Reloader {
 public:
  // Loads the models in the entries of --models.
  using LoadModels =
      std::function<absl::StatusOr<std::vector<Model>>(const std::vector<std::string>& entries)>;

  // Says what would keep a server with these options from starting.
  using CheckStart = std::function<StartCheck(const ProgramOptions& options)>;

  // `server` is open, and outlives this. `configuration` is the one that it runs with, and
  // `models_version` the ModelsVersion of its models, from before they were loaded; empty if some
  // were left out.
  Reloader(ConfigurationSources sources, Configuration configuration, std::string models_version,
           LoadModels load_models, CheckStart check_start, Server* server);

  // Reads the sources again, and all models if any has changed or was left out
  // (server/update_models.h): what it needs may be there by now.
  void Reload();

 private:
  // Appends to the line of the log.
  absl::Status Apply(const Configuration& next, std::vector<LogField>* fields);
  absl::Status UpdateModels(const std::vector<std::string>& entries);

  const ConfigurationSources sources_;
  Configuration current_;
  std::string models_version_;  // empty: of no models
  const LoadModels load_models_;
  const CheckStart check_start_;
  Server* const server_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RELOAD_H_
