// The id by which a client and the log speak of the same call.
#ifndef CHORALE_SERVER_TRACING_REQUEST_ID_H_
#define CHORALE_SERVER_TRACING_REQUEST_ID_H_

#include <optional>
#include <string>

#include "absl/random/bit_gen_ref.h"
#include "absl/strings/string_view.h"

namespace chorale {

// The metadata key, in requests and in responses.
inline constexpr char kRequestIdKey[] = "x-request-id";

// Most bytes of a request id that is taken over.
inline constexpr size_t kMaxRequestIdBytes = 128;

// The client's own id if it has 1 to kMaxRequestIdBytes bytes of printable ASCII without spaces;
// otherwise a new one, of 32 hexadecimal digits.
std::string TakeRequestId(const std::optional<absl::string_view>& header, absl::BitGenRef random);

}  // namespace chorale

#endif  // CHORALE_SERVER_TRACING_REQUEST_ID_H_
