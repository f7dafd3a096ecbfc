// Arrays [T, paths] of the values or results of paths: parts of them put together and taken out.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_PATH_ARRAYS_H_
#define CHORALE_TESTS_ENGINE_BACKEND_PATH_ARRAYS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// [T, count] of an array [T, all_paths]: paths [first, first + count).
template <typename T>
std::vector<T> SelectPaths(const std::vector<T>& values, int64_t all_paths, int64_t first,
                           int64_t count) {
  std::vector<T> selected;
  for (auto row = values.begin(); row != values.end(); row += all_paths) {
    selected.insert(selected.end(), row + first, row + first + count);
  }
  return selected;
}

// The paths of all tiles, [T, paths of the tile] each, as one array.
template <typename T>
std::vector<T> JoinTiles(const std::vector<absl::Span<const T>>& tiles, int64_t query_rows) {
  std::vector<T> joined;
  for (int64_t t = 0; t < query_rows; ++t) {
    for (const absl::Span<const T>& tile : tiles) {
      const auto paths = static_cast<int64_t>(tile.size()) / query_rows;
      const absl::Span<const T> row = tile.subspan(t * paths, paths);
      joined.insert(joined.end(), row.begin(), row.end());
    }
  }
  return joined;
}

// [rows, columns] to [columns, rows].
template <typename T>
std::vector<T> Transposed(const std::vector<T>& values, int64_t rows, int64_t columns) {
  std::vector<T> transposed(values.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) transposed[c * rows + r] = values[r * columns + c];
  }
  return transposed;
}

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_BACKEND_PATH_ARRAYS_H_
