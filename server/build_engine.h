// Makes the engine that the flags ask for.
#ifndef CHORALE_SERVER_BUILD_ENGINE_H_
#define CHORALE_SERVER_BUILD_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "server/server_options.h"
#include "server/telemetry/prometheus_metrics.h"

namespace chorale {

// Loads the models, opens the store and starts the engine. Errors name the file or folder at fault.
// `metrics` outlives the engine.
absl::StatusOr<std::unique_ptr<Engine>> BuildEngine(const EngineSetup& setup,
                                                    PrometheusMetrics* metrics);

}  // namespace chorale

#endif  // CHORALE_SERVER_BUILD_ENGINE_H_
