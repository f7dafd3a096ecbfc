#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/worker_threads.h"
#include "engine/api/engine.h"
#include "engine/composition/engine_impl.h"
#include "spdlog/spdlog.h"

namespace chorale {
namespace {

absl::Status ValidateOptions(const EngineOptions& options) {
  const auto positive = [](const char* name, bool ok) {
    return ok ? absl::OkStatus()
              : absl::InvalidArgumentError(absl::StrCat(name, ": must be positive"));
  };
  for (const absl::Status& s : {
           positive("max_queued", options.max_queued > 0),
           positive("max_queue_wait", options.max_queue_wait > absl::ZeroDuration()),
           positive("max_unacknowledged_values", options.max_unacknowledged_values > 0),
           positive("max_running", options.max_running > 0),
           positive("max_unread", options.max_unread > absl::ZeroDuration()),
       }) {
    RETURN_IF_ERROR(s);
  }
  if (options.target_tick < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("target_tick: must not be negative");
  }
  if (!(options.max_appended_share >= 0)) {
    return absl::InvalidArgumentError("max_appended_share: must not be negative");
  }
  if (options.summary_threads < 1) {
    return absl::InvalidArgumentError("summary_threads: must be positive");
  }
  if (options.max_context_file_bytes < 0) {
    return absl::InvalidArgumentError("max_context_file_bytes: must not be negative");
  }
  return options.max_slices_per_tick >= 0
             ? absl::OkStatus()
             : absl::InvalidArgumentError("max_slices_per_tick: must not be negative");
}

MetricsSink* NoMetrics() {
  static MetricsSink sink;  // has no state
  return &sink;
}

// Returns null if no files are requested, or if they cannot be kept. The engine works without
// files, which are only a cache.
std::unique_ptr<EncodedContexts> OpenEncodedContexts(const EngineOptions& options, Backend& backend,
                                                     ContextStore* store,
                                                     const ModelRegistry& models) {
  if (options.max_context_file_bytes == 0) return nullptr;
  if (backend.kv_format().empty() ||
      (backend.ContextMemory({}) == nullptr && backend.host_context_pool_bytes() == 0)) {
    spdlog::warn(
        "the server does not keep encoded contexts as files: {} requires host memory for contexts "
        "(--host_context_pool_mib)",
        backend.description());
    return nullptr;
  }
  auto opened = EncodedContexts::Open(options.context_files_folder, options.max_context_file_bytes,
                                      absl::StrCat(backend.kv_format(), ", ", kTransformVersion),
                                      store, models, EncodedContexts::Queues());
  if (opened.ok()) return *std::move(opened);
  spdlog::warn("the server does not keep encoded contexts as files: {}",
               opened.status().ToString());
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options,
                                                       std::unique_ptr<Backend> backend,
                                                       std::unique_ptr<ContextStore> store,
                                                       const std::vector<Model>& models,
                                                       MetricsSink* metrics) {
  RETURN_IF_ERROR(ValidateOptions(options));
  ASSIGN_OR_RETURN(std::unique_ptr<ModelRegistry> registry, ModelRegistry::Create(models));
  EngineOptions chosen = options;
  const TickPolicy policy = backend->tick_policy();
  if (chosen.max_slices_per_tick == 0) chosen.max_slices_per_tick = policy.max_slices;
  if (chosen.target_tick == absl::ZeroDuration()) chosen.target_tick = policy.target_tick;
  std::unique_ptr<EncodedContexts> encoded =
      OpenEncodedContexts(chosen, *backend, store.get(), *registry);
  EngineImpl::Queues queues;
  queues.summary = std::make_unique<WorkerThreads>(chosen.summary_threads);
  auto engine = std::make_unique<EngineImpl>(
      chosen, std::move(backend), std::move(store), std::move(registry), std::move(encoded),
      metrics != nullptr ? metrics : NoMetrics(), std::move(queues));
  RETURN_IF_ERROR(engine->Start(models));
  return engine;
}

}  // namespace chorale
