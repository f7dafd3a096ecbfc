// Converts notes on changed or suspicious input to the warnings of the API.
#ifndef CHORALE_SERVER_CODEC_WARNING_ENCODER_H_
#define CHORALE_SERVER_CODEC_WARNING_ENCODER_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/data/column_note.h"
#include "engine/data/text_columns.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace chorale {

// The maximum size of the warnings that each of these functions adds, so that they never prevent a
// response from fitting into a message. The last warning contains the number of omitted warnings.
inline constexpr int64_t kMaxWarningBytes = 12 << 10;

// Adds the warnings about an uploaded table: about columns of strings, and about `dropped_rows`
// rows without a value of `target`.
void EncodeTableWarnings(absl::Span<const TextWarning> texts, const std::string& target,
                         int64_t dropped_rows,
                         google::protobuf::RepeatedPtrField<v1::Warning>* warnings);

// The rows of a request that the notes are about. The categories of appended rows are compared with
// those of the base rows.
enum class RowUse { kRegisteredOrQuery, kAppended };

// Adds the engine's warnings in the order of the columns.
void EncodeWarnings(absl::Span<const ColumnNote> notes,
                    google::protobuf::RepeatedPtrField<v1::Warning>* warnings,
                    RowUse use = RowUse::kRegisteredOrQuery);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_WARNING_ENCODER_H_
