// The id that identifies a call to the client and in the log.
#ifndef CHORALE_SERVER_TRACING_REQUEST_ID_H_
#define CHORALE_SERVER_TRACING_REQUEST_ID_H_

#include <optional>
#include <string>

#include "absl/random/bit_gen_ref.h"
#include "absl/strings/string_view.h"

namespace chorale {

// The metadata key, in requests and in responses.
inline constexpr char kRequestIdKey[] = "x-request-id";

// The maximum size of a request id of a client.
inline constexpr size_t kMaxRequestIdBytes = 128;

// The client's id if it has 1 to kMaxRequestIdBytes bytes of printable ASCII without spaces;
// otherwise a new id of 32 hexadecimal digits.
std::string TakeRequestId(const std::optional<absl::string_view>& header, absl::BitGenRef random);

}  // namespace chorale

#endif  // CHORALE_SERVER_TRACING_REQUEST_ID_H_
