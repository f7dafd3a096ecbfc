// A tile of paths, as embedding and the head see it: one for each Tile of a launch, in device
// memory.
#ifndef CHORALE_KERNELS_CUDA_LAYOUT_PATH_TILE_H_
#define CHORALE_KERNELS_CUDA_LAYOUT_PATH_TILE_H_

#include <cstdint>

namespace chorale::kernels::cuda {

// Pair i of a tile's 32 pairs of rows, a query row and a buffer token, belongs to path
// i / path_positions, i % path_positions positions after the tile's. Values and outputs have a row
// for each position, with an element for each path; rows are `stride` elements apart.
//
// Pointers are device memory. A decode advances `position` on the device (LaunchHead),
// so that any number of steps runs without the host.
struct alignas(16) PathTile {
  const float* encodings = nullptr;  // [T, D] f32, row encodings of the request's query rows
  const int32_t* order = nullptr;    // [paths, P]: query row at each position; null: position i
                                     // has query row i
  float* values = nullptr;           // [P, stride] f32
  // Outputs for the host, from position first_emitted on.
  float* emitted_values = nullptr;      // [positions, stride] f32; or null
  double* emitted_densities = nullptr;  // [positions, stride] f64: log-densities
  float* emitted_mixtures = nullptr;    // [positions, stride, 3, M] f32: mean, std, log weight; or
                                        // null
  // [paths]: path p draws as path path_numbers[p] (kernels/ops/random.h); or null if none draws.
  const uint64_t* path_numbers = nullptr;
  uint64_t seed = 0;
  int32_t paths = 0;            // 1 to 32 / path_positions
  int32_t stride = 0;           // at least `paths`
  int32_t positions = 0;        // P, of each path
  int32_t path_positions = 1;   // of each path in this tile; see Tile
  int32_t position = 0;         // of the query row of pair 0
  int32_t token_position = -1;  // of the value that its buffer token holds; -1: no tokens
  int32_t steps_left = 0;       // of a decode, including this one; else 0
  int32_t first_emitted = 0;
  int32_t first_drawn = 0;  // values from this position on are drawn and written, others read
  int32_t head_blocks = 0;  // of the head, blocks that have read this; 0 between launches
};

// A pair of rows of a tile.
struct PathPair {
  int path = 0;
  int position = 0;  // of the query row
};
constexpr PathPair PathPairOf(const PathTile& tile, int pair) {
  return {pair / tile.path_positions, tile.position + pair % tile.path_positions};
}
// Whether there is such a path, and such a position.
constexpr bool InUse(const PathTile& tile, const PathPair& pair) {
  return pair.path < tile.paths && pair.position < tile.positions;
}
// Whether the pair's value is drawn; otherwise it is given.
constexpr bool IsDrawn(const PathTile& tile, const PathPair& pair) {
  return pair.position >= tile.first_drawn;
}
// Index of the pair's value in an array that begins at position `first`.
constexpr int64_t ValueAt(const PathTile& tile, const PathPair& pair, int first) {
  return static_cast<int64_t>(pair.position - first) * tile.stride + pair.path;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYOUT_PATH_TILE_H_
