// Detects addresses that only this machine can reach.
#ifndef CHORALE_BASE_LOOPBACK_H_
#define CHORALE_BASE_LOOPBACK_H_

#include "absl/strings/string_view.h"

namespace chorale {

// Returns true if only this machine can connect to `address`: "HOST:PORT" with a host of
// 127.0.0.0/8, [::1] or localhost, or "unix:PATH". Returns false for any other address, and for a
// host name that has to be resolved.
bool IsLoopbackAddress(absl::string_view address);

}  // namespace chorale

#endif  // CHORALE_BASE_LOOPBACK_H_
