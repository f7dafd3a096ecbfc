// The durable form of a dataset: canonical CBOR, and the digest that identifies its content.
#ifndef CHORALE_ENGINE_DATA_DATASET_CODEC_H_
#define CHORALE_ENGINE_DATA_DATASET_CODEC_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/limits.h"
#include "engine/data/table.h"

namespace chorale {

// InvalidArgument naming the column and the limit: no rows or columns, unequal lengths, empty or
// duplicate names, infinite numbers, codes out of range, a target that is not finite, limits.
absl::Status ValidateDataset(const Dataset& dataset, const Limits& limits);

// Canonical: equal content gives equal bytes (category dictionaries are sorted and codes
// renumbered, unused categories dropped, every NaN has the same bits). REQUIRES: the dataset is
// valid.
std::string EncodeDataset(const Dataset& dataset);

// DataLoss when the bytes are not what EncodeDataset wrote.
absl::StatusOr<Dataset> DecodeDataset(absl::string_view bytes);

// SHA-256 of the bytes, lower-case hex.
std::string ContentDigest(absl::string_view bytes);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_DATASET_CODEC_H_
