#include "tests/engine/simulation/scenario_options.h"

#include "absl/time/time.h"

namespace chorale::testing {

EngineOptions RandomEngineOptions(Random* random) {
  EngineOptions options;
  options.max_queued = random->OneOf({1, 4, 16, 64});
  options.max_queue_wait = absl::Seconds(random->OneOf({1, 5, 30}));
  options.max_unacknowledged_values = random->OneOf({1, 16, 256, 65'536});
  options.max_unread = absl::Seconds(random->OneOf({3, 60}));
  options.max_running = random->OneOf({1, 2, 8, 64});
  options.target_tick = absl::Milliseconds(10);
  options.max_slices_per_tick = random->OneOf({1, 4, 16});
  options.max_registered_bytes = random->OneOf({0, 4, 1024}) << 10;
  options.max_appended_share = random->OneOf({0.05, 0.25, 10.0});
  return options;
}

FakeBackendOptions RandomBackendOptions(Random* random) {
  FakeBackendOptions options;
  options.tile_paths = random->OneOf({1, 4, 32});
  options.density_tiles = random->OneOf({1, 4});
  options.decodes_in_step = random->Percent(50);
  options.context_pool_bytes = random->OneOf({4, 16, 64}) << 10;
  options.buffer_pool_bytes = random->OneOf({4, 64, 1024}) << 10;
  options.encode_steps = random->OneOf({1, 3, 50});
  options.host_reaches_contexts = random->Percent(30);
  if (!options.host_reaches_contexts && random->Percent(60)) {
    options.host_context_pool_bytes = 8 << 10;
  }
  options.memory_sets = random->Percent(80);
  options.appends = random->Percent(90);
  if (random->Percent(50)) {
    options.encode_pool_bytes = 8 << 10;
    options.encode_bytes_per_row = 64;
    options.rows_bytes_per_row = 64;
    options.predict_bytes_per_row = 64;
  }
  return options;
}

ContextShape RandomShape(const FakeBackendOptions& backend, Random* random) {
  if (backend.context_pool_bytes < (16 << 10) || random->Percent(70)) {
    return {.rows = random->OneOf({1, 5, 20, 60}) + random->Below(4)};
  }
  // At times there are fewer rows than keys.
  return {.rows = random->OneOf({5, 100, 300}) + random->Below(4),
          .memory = {.rows = random->OneOf({64, 100}),
                     .policy = random->OneOf(
                         {MemoryPolicy::kMerge, MemoryPolicy::kHeavy, MemoryPolicy::kSample})}};
}

}  // namespace chorale::testing
