// What the engine tells about a call at its end, for logs and traces.
#ifndef CHORALE_ENGINE_API_CALL_REPORT_H_
#define CHORALE_ENGINE_API_CALL_REPORT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace chorale {

// The stages of a call follow each other; one that the call did not reach is absent:
//
//   arrival --> context_began --> context_ready --> admitted --> end
//          queued            encoding         queued        running
//
// A call that finds its context resident has neither of the two moments of the context: it is
// queued from arrival to admission. Times are on the clock of the engine.
struct CallReport {
  enum class Context {
    kNotReached,  // the call ended before there was room for its context
    kResident,    // it was resident when the call came to it
    kEncoded,     // the call waited for it to be read and encoded
    kRestored,    // the call waited for it to be copied back from the host, or read from a file
  };

  std::string model;         // of the context; empty until the context was looked up
  int64_t context_rows = 0;  // likewise 0
  Context context = Context::kNotReached;

  absl::Time arrival;
  // There was room for the context, and this call began to wait for its keys and values. Another
  // call may have begun to encode it earlier.
  std::optional<absl::Time> context_began;
  std::optional<absl::Time> context_ready;
  std::optional<absl::Time> admitted;    // buffers are held; work on the call itself begins
  std::optional<absl::Time> first_step;  // as in Timings
  absl::Time end;

  absl::Duration queued;    // as in Timings
  absl::Duration encoding;  // as in Timings
};

// Called once, on the engine thread, before the call's observer or callback hears of the end; must
// not block.
using CallReporter = std::function<void(const CallReport&)>;

}  // namespace chorale

#endif  // CHORALE_ENGINE_API_CALL_REPORT_H_
