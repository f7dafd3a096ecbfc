// The durable form of a dataset: canonical CBOR, and the digest that identifies its content.
//
// One CBOR map, keys in this order, everything of definite length:
//   "columns"  array of features in the order registered, each a map: "name" (text), then either
//              "numbers"           bytes, [rows] float64
//              "meaning"           "boolean", "date" or "duration"; absent for plain numbers
//              or
//              "category_lengths"  bytes, [categories] uint32: bytes of each in "category_text"
//              "category_text"     bytes, the categories one after the other
//              "codes"             bytes, [rows] int32 into the categories, -1 for a missing cell
//   "format"   "chorale dataset"
//   "seasons"  "not sought"; only where the dataset says so
//   "target"   text, name of the target column
//   "version"  1
//   "y"        bytes, [rows] float64
// Packed numbers are little-endian. The keys of a column are in alphabetical order as well.
#ifndef CHORALE_ENGINE_DATA_DATASET_CODEC_H_
#define CHORALE_ENGINE_DATA_DATASET_CODEC_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/limits.h"
#include "engine/data/table.h"

namespace chorale {

// InvalidField naming the column, as in `rows.columns["age"].numeric.values[17]`, and the limit.
// The table is called "rows" as in the public API, whose rows are counted over all chunks: no rows
// or columns, unequal lengths, empty or duplicate names, infinite numbers, booleans that are
// neither 0 nor 1, codes out of range, a target that is not finite, limits.
absl::Status ValidateDataset(const Dataset& dataset, const Limits& limits);

// Canonical: equal content gives equal bytes (category dictionaries are sorted and codes
// renumbered, unused categories dropped, every NaN has the same bits, and a negative zero becomes
// zero). REQUIRES: the dataset is valid.
std::string EncodeDataset(const Dataset& dataset);

// DataLoss when the bytes are not exactly what EncodeDataset writes for some valid dataset. Safe on
// hostile bytes: bounded recursion, and memory proportional to their number.
absl::StatusOr<Dataset> DecodeDataset(absl::string_view bytes);

// SHA-256 of the bytes, lower-case hex.
std::string ContentDigest(absl::string_view bytes);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_DATASET_CODEC_H_
