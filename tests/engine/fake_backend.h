// A backend without a model: deterministic pseudo-values, counts of what it did, and switches to
// hold it up or make it fail.
#ifndef CHORALE_TESTS_ENGINE_FAKE_BACKEND_H_
#define CHORALE_TESTS_ENGINE_FAKE_BACKEND_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "engine/backend/backend.h"
#include "tests/support/skippable_clock.h"

namespace chorale::testing {

struct FakeBackendOptions {
  int64_t tile_paths = 4;
  int64_t density_tiles = 1;  // of a density, at most
  bool decodes_in_step = false;
  int64_t context_pool_bytes = 1 << 20;
  int64_t buffer_pool_bytes = 1 << 20;
  int64_t context_bytes_per_row = 64;
  int64_t memory_bytes_per_key = 8;  // of a memory set, in addition
  bool memory_sets = true;
  bool appends = true;
  int64_t buffer_bytes_per_value = 64;  // of each path and query row
  int64_t density_bytes_per_row = 64;
  int64_t encode_steps = 3;
  // As of a backend that keeps everything in its own memory.
  int64_t encode_pool_bytes = 0;
  int64_t encode_bytes_per_row = 0;
  int64_t rows_bytes_per_row = 0;
  int64_t predict_bytes_per_row = 0;
  int64_t host_context_pool_bytes = 0;
  bool host_reaches_contexts = false;  // as of a backend on the CPU
  int64_t copy_steps = 2;
};

// What determines the keys and values that an encoding makes of its data.
struct FakeEncoding {
  ContextShape shape;
  uint64_t seed = 0;
  std::vector<int64_t> append_starts = {};
  int64_t prefix_rows = 0;  // that were copied

  friend bool operator==(const FakeEncoding&, const FakeEncoding&) = default;
};

// What the fake backend was asked to do. Thread-safe.
class FakeBackendLog {
 public:
  std::atomic<int64_t> encodings{0};
  std::atomic<int64_t> encoded_rows{0};  // of all encodings, without those that were copied
  std::atomic<int64_t> saves{0};         // begun
  std::atomic<int64_t> restores{0};
  std::atomic<int64_t> ticks{0};
  std::atomic<int64_t> decode_steps{0};
  std::atomic<int64_t> most_slices{0};
  std::atomic<int64_t> live_work{0};
  std::atomic<int64_t> live_models{0};
  std::atomic<int64_t> removed_models{0};
  std::atomic<bool> refuse_models{false};
  // Models whose names begin with "wide" need a library, and have a form of their own.
  std::atomic<bool> lacks_library{false};
  std::atomic<int64_t> library_version{1};
  std::atomic<int64_t> released_context_bytes{0};
  std::atomic<int64_t> released_buffer_bytes{0};
  std::atomic<int64_t> released_encode_bytes{0};
  std::atomic<bool> fail{false};
  std::atomic<int64_t> microseconds_per_step{0};
  // A step puts `clock` forward by this time. Set while the engine has no work.
  SkippableClock* clock = nullptr;
  absl::Duration step_time;
  void PassStepTime() const {
    if (clock != nullptr) clock->Skip(step_time);
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds_per_step));
  }

  // Called at the start of each Advance. Set it while the engine has no work.
  std::function<void(absl::Span<const Slice>)> on_advance;

  // Steps of the decodes of one Advance. `together`: all got as many, but for those that ended.
  struct DecodeTick {
    int64_t decodes = 0;
    int64_t steps = 0;
    bool together = true;
  };
  void AddDecodeTick(const DecodeTick& tick);
  std::vector<DecodeTick> decode_ticks();

  // All encodings, in the order in which they began.
  void AddEncoding(const FakeEncoding& encoding);
  std::vector<FakeEncoding> all_encodings();

  // While closed, Advance waits before it does anything.
  void CloseGate();
  void OpenGate();
  void PassGate();
  // Lets exactly `ticks` calls of Advance through a closed gate, and returns when they ended.
  void LetThrough(int64_t ticks);
  void EndTick();

 private:
  Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t allowed_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<DecodeTick> decode_ticks_ ABSL_GUARDED_BY(mutex_);
  std::vector<FakeEncoding> all_encodings_ ABSL_GUARDED_BY(mutex_);
};

// The value that path `path` has at `step` with this seed, before scaling.
float FakeValue(uint64_t seed, uint64_t path, int64_t step);
// The log-density that the fake assigns to a value at a position for a query row.
float FakeLogDensity(float value, int64_t position, int64_t query_row);

// `log` outlives the backend and may be inspected at any time.
std::unique_ptr<Backend> NewFakeBackend(const FakeBackendOptions& options, FakeBackendLog* log);

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_FAKE_BACKEND_H_
