// The names of meanings in datasets and records. They are durable.
#ifndef CHORALE_ENGINE_DATA_COLUMN_MEANING_H_
#define CHORALE_ENGINE_DATA_COLUMN_MEANING_H_

#include "absl/strings/string_view.h"
#include "engine/data/table.h"

namespace chorale {

// "number", "boolean", "date" or "duration".
const char* MeaningName(Meaning meaning);

// Returns false for an unknown name, and leaves `meaning` unchanged.
bool MeaningFromName(absl::string_view name, Meaning* meaning);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_COLUMN_MEANING_H_
