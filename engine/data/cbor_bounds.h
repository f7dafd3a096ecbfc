// Checks CBOR bytes before a parser reads them.
#ifndef CHORALE_ENGINE_DATA_CBOR_BOUNDS_H_
#define CHORALE_ENGINE_DATA_CBOR_BOUNDS_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace chorale {

// Returns true if `bytes` are exactly one CBOR item that consists only of non-negative integers,
// byte and text strings, arrays and maps, all complete and of definite length, with a nesting of at
// most `max_depth` containers and at most `max_items` items (keys of maps included). Takes linear
// time, and memory for `max_depth` counters. The CBOR parser needs these bounds: it recurses on
// nested containers and on nested indefinite strings, and allocates an object for every item.
bool WithinCborBounds(absl::string_view bytes, int64_t max_depth, int64_t max_items);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_CBOR_BOUNDS_H_
