// What embedding and drawing need to know of a tile of paths, besides what Tile says: one for each
// tile of a launch, in device memory.
#ifndef CHORALE_KERNELS_CUDA_LAYOUT_PATH_TILE_H_
#define CHORALE_KERNELS_CUDA_LAYOUT_PATH_TILE_H_

#include <cstdint>

namespace chorale::kernels::cuda {

// Pointers are device memory. `position` is the target's position; a decode advances it on the
// device (LaunchAdvancePosition), so that any number of steps runs without the host.
struct PathTile {
  const float* encodings = nullptr;  // [T, D] f32, row encodings of the request's targets
  const int32_t* order = nullptr;    // [paths, T]: target at each position; null: as given
  float* values = nullptr;           // [T, paths] f32: given, or drawn and then read
  // What the host is told, from position first_emitted on: values, or null; log-densities; mixtures
  // (means, stds, log weights), or null.
  float* emitted_values = nullptr;      // [positions, paths] f32
  double* emitted_densities = nullptr;  // [positions, paths] f64
  float* emitted_mixtures = nullptr;    // [positions, paths, 3, M] f32
  uint64_t seed = 0;
  uint64_t first_path = 0;      // of the session: path p draws as path first_path + p
  int32_t paths = 0;            // 1 to 32
  int32_t targets = 0;          // T
  int32_t position = 0;         // of the target
  int32_t token_position = -1;  // of the value that the buffer token holds; -1: there is no token
  int32_t steps_left = 0;       // of a decode, this one counted
  int32_t first_emitted = 0;
  int32_t draw = 0;  // 1: write values; 0: they are given
  int32_t unused = 0;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYOUT_PATH_TILE_H_
