// A tile of paths, as embedding and drawing see it: one for each Tile of a launch, in device
// memory.
#ifndef CHORALE_KERNELS_CUDA_LAYOUT_PATH_TILE_H_
#define CHORALE_KERNELS_CUDA_LAYOUT_PATH_TILE_H_

#include <cstdint>

namespace chorale::kernels::cuda {

// Pointers are device memory. A decode advances `position` on the device (LaunchAdvancePosition),
// so that any number of steps runs without the host.
struct PathTile {
  const float* encodings = nullptr;  // [T, D] f32, row encodings of the request's query rows
  const int32_t* order =
      nullptr;  // [paths, T]: query row at each position; null: position i draws query row i
  float* values = nullptr;  // [T, paths] f32: written and read by a decode, else read
  // Outputs for the host, from position first_emitted on.
  float* emitted_values = nullptr;      // [positions, paths] f32; or null
  double* emitted_densities = nullptr;  // [positions, paths] f64: log-densities
  float* emitted_mixtures = nullptr;    // [positions, paths, 3, M] f32: mean, std, log weight; or
                                        // null
  uint64_t seed = 0;
  uint64_t first_path = 0;      // in the session: path p draws as path first_path + p
  int32_t paths = 0;            // 1 to 32
  int32_t query_rows = 0;       // T
  int32_t position = 0;         // of the query row
  int32_t token_position = -1;  // of the value that the buffer token holds; -1: no token
  int32_t steps_left = 0;       // of a decode, including this one
  int32_t first_emitted = 0;
  int32_t draw = 0;  // 1: draw and write `values`; 0: read them
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYOUT_PATH_TILE_H_
