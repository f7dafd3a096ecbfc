// The order in which the rows of a context with appended rows are encoded.
#ifndef CHORALE_ENGINE_BACKEND_ENCODE_BLOCKS_H_
#define CHORALE_ENGINE_BACKEND_ENCODE_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/layer_schedule.h"
#include "engine/data/memory_set.h"

namespace chorale {

// The blocks of a context, in their order: the rows before the first append, then the rows of each
// append. All rows of a block pass through all layers before the next block begins, and they attend
// to all keys up to the end of their block, so that the keys of a block depend on no later row.
// Omits the blocks of the first `prefix_rows` rows.
//
// REQUIRES: append_starts (Dataset::append_starts) are ascending, positive and less than rows;
// prefix_rows is 0 or one of them.
std::vector<RowRange> EncodeBlocks(int64_t rows, absl::Span<const int64_t> append_starts,
                                   int64_t prefix_rows = 0);

// Whether a context of the first rows of another, with the same model, can be its prefix
// (EncodeSpec::prefix): it ends at one of append_starts, and both are reduced or neither is. A
// context that is not reduced has other keys than the first segments of one that is.
bool CanBePrefix(const ContextShape& prefix, const ContextShape& context,
                 absl::Span<const int64_t> append_starts);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_ENCODE_BLOCKS_H_
