// Applies a changed configuration while the server runs.
#ifndef CHORALE_SERVER_RELOAD_H_
#define CHORALE_SERVER_RELOAD_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/model/model.h"
#include "server/check_start.h"
#include "server/options/configuration.h"
#include "server/server.h"
#include "server/telemetry/logging.h"

namespace chorale {

// Whether a new value of the flag applies without a restart.
bool IsReloadable(absl::string_view flag);

// A configuration with any error changes no flag. Each file of certificates, tokens and tenants is
// applied separately, so that an error elsewhere does not prevent the revocation of a token. One
// log event lists the changes, the flags that require a restart, and the rejected parts with their
// reasons; the metrics count reloads.
//
// Thread contract: one thread at a time.
class Reloader {
 public:
  // Loads the models in the entries of --models.
  using LoadModels =
      std::function<absl::StatusOr<std::vector<Model>>(const std::vector<std::string>& entries)>;

  // Returns the errors that would prevent a server with these options from starting.
  using CheckStart = std::function<StartCheck(const ProgramOptions& options)>;

  // `server` is open, and outlives this. `configuration` is the configuration with which it runs,
  // and `models_version` the ModelsVersion of its models, from before they were loaded.
  Reloader(ConfigurationSources sources, Configuration configuration, std::string models_version,
           LoadModels load_models, CheckStart check_start, Server* server);

  // Reads the sources again, and all models if a model has changed or was skipped
  // (server/models/update_models.h): its requirement may be available by now.
  void Reload();

 private:
  // Appends to the fields of the log event.
  absl::Status Apply(const Configuration& next, std::vector<LogField>* fields);
  absl::Status UpdateModels(const std::vector<std::string>& entries);

  const ConfigurationSources sources_;
  Configuration current_;
  std::string models_version_;
  const LoadModels load_models_;
  const CheckStart check_start_;
  Server* const server_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RELOAD_H_
