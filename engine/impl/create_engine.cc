#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "engine/engine.h"
#include "engine/impl/engine_impl.h"

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
       }) {
    RETURN_IF_ERROR(s);
  }
  if (options.target_tick < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("target_tick: must not be negative");
  }
  return options.max_slices_per_tick >= 0
             ? absl::OkStatus()
             : absl::InvalidArgumentError("max_slices_per_tick: must not be negative");
}

MetricsSink* NoMetrics() {
  static MetricsSink sink;  // has no state
  return &sink;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options,
                                                       std::unique_ptr<Backend> backend,
                                                       std::unique_ptr<ContextStore> store,
                                                       const std::vector<Model>& models,
                                                       MetricsSink* metrics) {
  RETURN_IF_ERROR(ValidateOptions(options));
  absl::StatusOr<std::unique_ptr<ModelRegistry>> registry = ModelRegistry::Create(models);
  RETURN_IF_ERROR(registry.status());
  EngineOptions chosen = options;
  const TickPolicy policy = backend->tick_policy();
  if (chosen.max_slices_per_tick == 0) chosen.max_slices_per_tick = policy.max_slices;
  if (chosen.target_tick == absl::ZeroDuration()) chosen.target_tick = policy.target_tick;
  auto engine = std::make_unique<EngineImpl>(chosen, std::move(backend), std::move(store),
                                             *std::move(registry),
                                             metrics != nullptr ? metrics : NoMetrics());
  RETURN_IF_ERROR(engine->Start(models));
  return engine;
}

}  // namespace chorale
