#include "engine/engine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/engine_impl.h"

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
           positive("target_tick", options.target_tick > absl::ZeroDuration()),
           positive("max_running", options.max_running > 0),
       }) {
    if (!s.ok()) return s;
  }
  return options.max_slices_per_tick >= 0
             ? absl::OkStatus()
             : absl::InvalidArgumentError("max_slices_per_tick: must not be negative");
}

// Two per processor, so that a slice that ends early leaves no processor idle.
int64_t DefaultSlices() {
  return std::max<int64_t>(4, 2 * static_cast<int64_t>(std::thread::hardware_concurrency()));
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
  if (absl::Status s = ValidateOptions(options); !s.ok()) return s;
  absl::StatusOr<std::unique_ptr<ModelRegistry>> registry = ModelRegistry::Create(models);
  if (!registry.ok()) return registry.status();
  EngineOptions chosen = options;
  if (chosen.max_slices_per_tick == 0) chosen.max_slices_per_tick = DefaultSlices();
  auto engine = std::make_unique<EngineImpl>(chosen, std::move(backend), std::move(store),
                                             *std::move(registry),
                                             metrics != nullptr ? metrics : NoMetrics());
  if (absl::Status s = engine->Start(models); !s.ok()) return s;
  return engine;
}

}  // namespace chorale
