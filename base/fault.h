// Faults that tests cause at certain places of a running program: a test sets them with SetFaults,
// in any build. A server of a build with sanitizers sets those of the variable CHORALE_FAULTS.
#ifndef CHORALE_BASE_FAULT_H_
#define CHORALE_BASE_FAULT_H_

#include <atomic>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chorale {

// The places, and what a fault does there. Each has a name in fault.cc.
enum class FaultPlace {
  kBufferPool,        // there is no space for the buffers of a request
  kContextPool,       // there is no space for the keys and values of a context
  kHostContextPool,   // there is no space to save a context
  kEncodePool,        // there is no space for the work of an encoding
  kContextLoad,       // the data of a context cannot be read from the store
  kContextFileRead,   // the file of an encoded context cannot be read
  kContextFileWrite,  // the file of an encoded context cannot be written
  kDevice,            // the device fails
  kAccept,            // there is no file descriptor for a connection
  kReplyMemory,       // there is no memory for a response
};

// Decides whether a place fails. May wait before, which delays the place.
using Faults = std::function<bool(FaultPlace place)>;

// From now on, `faults` decides, on the threads of the places. Null: no place fails.
void SetFaults(Faults faults);

// Returns the faults of a text such as "buffer_pool=0.2,device=0.1:5ms": each place fails with the
// probability after its name; with a duration, it is delayed with this probability instead. The
// numbers are pseudorandom and the same in every run. InvalidArgument.
absl::StatusOr<Faults> ParseFaults(absl::string_view text);

namespace fault_internal {
extern std::atomic<bool> any;
bool Decide(FaultPlace place);
}  // namespace fault_internal

// Returns true if the place must fail now. Takes one load of memory if no faults are set.
inline bool FaultAt(FaultPlace place) {
  return fault_internal::any.load(std::memory_order_relaxed) && fault_internal::Decide(place);
}

}  // namespace chorale

#endif  // CHORALE_BASE_FAULT_H_
