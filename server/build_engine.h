// Creates the engine from the options.
#ifndef CHORALE_SERVER_BUILD_ENGINE_H_
#define CHORALE_SERVER_BUILD_ENGINE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "server/server_options.h"
#include "server/telemetry/prometheus_metrics.h"

namespace chorale {

struct BuiltEngine {
  std::unique_ptr<Engine> engine;
  std::vector<LeftOutModel> left_out_models;  // see Engine::Create; a reload may load them
};

// Loads the models, opens the store and the backend, and starts the engine. Logs which models are
// served, and which are skipped and why. Errors name the file or folder at fault. `metrics` must
// outlive the engine.
absl::StatusOr<BuiltEngine> BuildEngine(const EngineSetup& setup, PrometheusMetrics* metrics);

}  // namespace chorale

#endif  // CHORALE_SERVER_BUILD_ENGINE_H_
