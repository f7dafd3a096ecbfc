// The durable form of a dataset: canonical CBOR, and the digest that identifies its content.
//
// One CBOR map with keys in this order and all items of definite length:
//   "append_starts"  array of integers, Dataset::append_starts; only if rows were appended
//   "columns"  array of features in the order registered, each a map: "name" (text), then either
//              "numbers"           bytes, [rows] float64
//              "meaning"           "boolean", "date" or "duration"; absent for plain numbers
//              or
//              "category_lengths"  bytes, [categories] uint32: bytes of each in "category_text"
//              "category_text"     bytes, the categories one after the other
//              "codes"             bytes, [rows] int32 into the categories, -1 for a missing cell
//   "format"   "chorale dataset"
//   "memory_policy"  "merge", "heavy" or "sample"; only with a memory set
//   "memory_rows"    integer of at least 64: the keys of each head; only with a memory set
//   "seasons"  "not sought"; only for Seasons::kNotSought
//   "target"   text, name of the target column
//   "version"  1
//   "y"        bytes, [rows] float64
// Packed numbers are little-endian. The keys of a column are in alphabetical order as well.
#ifndef CHORALE_ENGINE_DATA_DATASET_CODEC_H_
#define CHORALE_ENGINE_DATA_DATASET_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/limits.h"
#include "engine/data/table.h"

namespace chorale {

// Returns InvalidField with the column, as in `rows.columns["age"].numeric.values[17]`, and the
// limit. The table is called "rows" as in the public API, and its rows are counted over all chunks.
// Rejects a table without rows or columns, unequal lengths, empty or duplicate names, infinite
// numbers, booleans that are neither 0 nor 1, codes out of range, a target that is not finite, a
// memory set that is too small or has an unknown policy, appends that do not start at ascending
// rows, are too many or have a reduced memory set, and data beyond `limits`.
absl::Status ValidateDataset(const Dataset& dataset, const Limits& limits);

// The encoding is canonical: equal content has equal bytes (category dictionaries are sorted and
// codes renumbered, unused categories dropped, every NaN has the same bits, and a negative zero
// becomes zero). REQUIRES: the dataset is valid.
std::string EncodeDataset(const Dataset& dataset);

// Returns DataLoss unless EncodeDataset writes exactly these bytes for some valid dataset. Safe on
// hostile bytes: recursion is bounded, and memory is proportional to the number of bytes.
absl::StatusOr<Dataset> DecodeDataset(absl::string_view bytes);

// SHA-256 of the bytes in lower-case hex.
std::string ContentDigest(absl::string_view bytes);
// The first 64 bits of ContentDigest.
uint64_t ContentKey(absl::string_view bytes);
// The seed of random choices that depend on nothing but the content with this digest. `purpose`
// separates seeds of the same content.
uint64_t ContentSeed(absl::string_view purpose, absl::string_view digest);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_DATASET_CODEC_H_
