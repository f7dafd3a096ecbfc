// The report of the engine at the end of a call, for logs and traces.
#ifndef CHORALE_ENGINE_API_CALL_REPORT_H_
#define CHORALE_ENGINE_API_CALL_REPORT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace chorale {

// The stages of a call, in their order. The times of stages that the call did not reach are absent:
//
//   arrival --> context_began --> context_ready --> admitted --> end
//          queued            encoding         queued        running
//
// If the context is resident when the call needs it, the call has neither of the two times of the
// context: it is queued from arrival to admission. Times are of the clock of the engine.
struct CallReport {
  enum class Context {
    kNotReached,  // the call ended before there was space for its context
    kResident,    // it was resident when the call needed it
    kEncoded,     // the call waited until it was read and encoded
    kRestored,    // the call waited until it was restored from the host or a file
  };

  std::string model;         // of the context; empty until the context was looked up
  int64_t context_rows = 0;  // 0 until the context was looked up
  Context context = Context::kNotReached;

  absl::Time arrival;
  // The time at which there was space for the context, and this call began to wait for its keys and
  // values. Another call may have begun to encode the context earlier.
  std::optional<absl::Time> context_began;
  std::optional<absl::Time> context_ready;
  std::optional<absl::Time> admitted;    // buffers are held; work on the call itself begins
  std::optional<absl::Time> first_step;  // as in Timings
  absl::Time end;

  absl::Duration queued;    // as in Timings
  absl::Duration encoding;  // as in Timings
};

// Called once, on the engine thread, before the observer or the callback of the call receives the
// end. Must not block.
using CallReporter = std::function<void(const CallReport&)>;

}  // namespace chorale

#endif  // CHORALE_ENGINE_API_CALL_REPORT_H_
