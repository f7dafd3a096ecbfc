// Whether an address is of this machine alone.
#ifndef CHORALE_BASE_LOOPBACK_H_
#define CHORALE_BASE_LOOPBACK_H_

#include "absl/strings/string_view.h"

namespace chorale {

// Whether nothing but this machine can be at the other end of `address`: "HOST:PORT" with a host of
// 127.0.0.0/8, [::1] or localhost, or "unix:PATH". False for everything else, names that would have
// to be resolved included.
bool IsLoopbackAddress(absl::string_view address);

}  // namespace chorale

#endif  // CHORALE_BASE_LOOPBACK_H_
