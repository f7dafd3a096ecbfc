#include "server/build_engine.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "engine/model/model.h"
#include "engine/store/context_store.h"
#include "server/open_backend.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

absl::StatusOr<std::vector<Model>> LoadModels(const std::vector<std::string>& folders) {
  std::vector<Model> models;
  for (const std::string& folder : folders) {
    absl::StatusOr<Model> model = LoadModel(folder);
    if (!model.ok()) {
      return absl::Status(model.status().code(), absl::StrCat("cannot load the model in ", folder,
                                                              ": ", model.status().message()));
    }
    LogEvent(spdlog::level::info, "model_loaded",
             {{"model", model->name},
              {"folder", folder},
              {"parameters", model->parameters},
              {"digest", model->digest}});
    models.push_back(*std::move(model));
  }
  return models;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> BuildEngine(const EngineSetup& setup,
                                                    PrometheusMetrics* metrics) {
  absl::StatusOr<std::vector<Model>> models = LoadModels(setup.models);
  RETURN_IF_ERROR(models.status());
  absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(setup.data_dir);
  RETURN_IF_ERROR(store.status());
  absl::StatusOr<std::unique_ptr<Backend>> backend = OpenBackend(setup);
  RETURN_IF_ERROR(backend.status());
  metrics->PoolBytes((*backend)->context_pool_bytes(), (*backend)->buffer_pool_bytes());
  EngineOptions options;
  options.limits = setup.limits;
  options.max_queued = setup.max_queued;
  options.max_queue_wait = setup.max_queue_wait;
  options.retry_delay = setup.retry_delay;
  return Engine::Create(options, *std::move(backend), *std::move(store), *models, metrics);
}

}  // namespace chorale
