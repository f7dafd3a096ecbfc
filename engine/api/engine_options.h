// The options of an engine.
#ifndef CHORALE_ENGINE_API_ENGINE_OPTIONS_H_
#define CHORALE_ENGINE_API_ENGINE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "engine/data/limits.h"

namespace chorale {

struct EngineOptions {
  Limits limits;
  int64_t max_queued = 256;  // requests waiting for admission
  absl::Duration max_queue_wait = absl::Seconds(30);
  absl::Duration retry_delay = absl::Seconds(1);  // suggested with RESOURCE_EXHAUSTED
  int64_t max_unacknowledged_values = 65'536;     // per Sample stream; see Call::Acknowledge
  // A Sample that waits for Call::Acknowledge for this time ends with ResourceExhausted.
  absl::Duration max_unread = absl::Seconds(60);
  int64_t max_running = 256;  // requests admitted at a time; bounds their host memory
  // Host memory for the data of newly registered contexts, which is kept for their first request,
  // and for the tables of contexts of which calls use local rows. If the memory is full, tables are
  // dropped, and then the oldest data; both are read from the store when they are needed.
  int64_t max_registered_bytes = int64_t{256} << 20;
  // A context is encoded anew as a whole, in the background, when its appended rows exceed this
  // share of the rows before its first append.
  double max_appended_share = 0.25;
  // The target duration of a tick, and the maximum number of slices per tick; 0: the backend's
  // default.
  absl::Duration target_tick = absl::ZeroDuration();
  int64_t max_slices_per_tick = 0;
  // The folder for files of encoded contexts, and the limit of their total size; 0: no files.
  std::string context_files_folder;
  int64_t max_context_file_bytes = 0;
  int summary_threads = 1;             // for quantiles and the statistics of paths
  const Clock* clock = Clock::Real();  // not owned; tests replace it
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_API_ENGINE_OPTIONS_H_
