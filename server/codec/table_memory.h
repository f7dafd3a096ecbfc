// The memory of a table that is being registered or appended.
#ifndef CHORALE_SERVER_CODEC_TABLE_MEMORY_H_
#define CHORALE_SERVER_CODEC_TABLE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/data/table.h"

namespace chorale {

// Memory of a category in addition to its characters: one string in the column, one in an index,
// and the index's code and empty slots.
inline constexpr size_t kCategoryOverhead = 2 * sizeof(std::string) + 32;

// The size of the names, cells and categories, which Limits::max_dataset_bytes limits.
int64_t TableBytes(const Table& table);

// The memory that they use: for short categories many times TableBytes.
int64_t TableMemoryBytes(const Table& table);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_TABLE_MEMORY_H_
