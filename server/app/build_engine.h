// Creates the engine from the options.
#ifndef CHORALE_SERVER_APP_BUILD_ENGINE_H_
#define CHORALE_SERVER_APP_BUILD_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "server/options/server_options.h"
#include "server/telemetry/prometheus_metrics.h"

namespace chorale {

// Loads the models, opens the store and the backend, and starts the engine. Logs which models are
// served, and which are skipped and why. Errors name the file or folder at fault. `metrics` must
// outlive the engine.
absl::StatusOr<std::unique_ptr<Engine>> BuildEngine(const EngineSetup& setup,
                                                    PrometheusMetrics* metrics);

}  // namespace chorale

#endif  // CHORALE_SERVER_APP_BUILD_ENGINE_H_
