// Converts the engine's notes on changed or suspicious input to the warnings of the API.
#ifndef CHORALE_SERVER_CODEC_WARNING_ENCODER_H_
#define CHORALE_SERVER_CODEC_WARNING_ENCODER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/data/column_note.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace chorale {

// The maximum size of the warnings of a message, so that they never prevent a response from fitting
// into it. The last warning contains the number of omitted warnings.
inline constexpr int64_t kMaxWarningBytes = 12 << 10;

// In the order of the columns.
void EncodeWarnings(absl::Span<const ColumnNote> notes,
                    google::protobuf::RepeatedPtrField<v1::Warning>* warnings);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_WARNING_ENCODER_H_
