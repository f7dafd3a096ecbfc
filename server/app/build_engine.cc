#include "server/app/build_engine.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "engine/model/model.h"
#include "engine/store/context_store.h"
#include "server/app/open_backend.h"
#include "server/models/load_models.h"
#include "server/models/update_models.h"

namespace chorale {

absl::StatusOr<std::unique_ptr<Engine>> BuildEngine(const EngineSetup& setup,
                                                    PrometheusMetrics* metrics) {
  ASSIGN_OR_RETURN(std::vector<Model> models, LoadModels(setup.models, [] { return false; }));
  ASSIGN_OR_RETURN(std::unique_ptr<ContextStore> store, OpenSqliteContextStore(setup.data_dir));
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, OpenBackend(setup));
  EngineOptions options;
  options.limits = setup.limits;
  options.max_registered_bytes = setup.registered_tables_bytes;
  options.summary_threads = setup.summary_threads;
  options.max_appended_share = static_cast<double>(setup.max_appended_percent) / 100.0;
  options.max_queued = setup.max_queued;
  options.max_queue_wait = setup.max_queue_wait;
  options.max_unread = setup.max_unread;
  options.retry_delay = setup.retry_delay;
  options.context_files_folder = absl::StrCat(setup.data_dir, "/kv");
  options.max_context_file_bytes = setup.context_file_bytes;
  ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                   Engine::Create(options, std::move(backend), std::move(store), models, metrics));
  LogSkipped(engine->SkippedModels());
  for (const ModelInfo& model : engine->Models()) LogModel(model);
  return engine;
}

}  // namespace chorale
