// Checks CBOR bytes before a parser reads them.
#ifndef CHORALE_ENGINE_DATA_CBOR_BOUNDS_H_
#define CHORALE_ENGINE_DATA_CBOR_BOUNDS_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace chorale {

// Whether `bytes` are exactly one CBOR item made of non-negative integers, byte and text strings,
// arrays and maps only, all of definite length and complete, with at most `max_depth` containers
// around anything and at most `max_items` items (a map's keys count) in all. Takes linear time and
// memory for `max_depth` counters: the parser behind it recurses on nested containers and on
// nested indefinite strings, and makes an object of every item.
bool WithinCborBounds(absl::string_view bytes, int64_t max_depth, int64_t max_items);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_CBOR_BOUNDS_H_
