// From what the engine did not take as it stands to the API's warnings.
#ifndef CHORALE_SERVER_CODEC_WARNING_ENCODER_H_
#define CHORALE_SERVER_CODEC_WARNING_ENCODER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/data/column_note.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace chorale {

// Most bytes of the warnings of one message, so that they never keep an answer from fitting into
// it; what has no room is counted by the last one.
inline constexpr int64_t kMaxWarningBytes = 12 << 10;

// In the order of the columns.
void EncodeWarnings(absl::Span<const ColumnNote> notes,
                    google::protobuf::RepeatedPtrField<v1::Warning>* warnings);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_WARNING_ENCODER_H_
