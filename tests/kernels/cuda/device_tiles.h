// Tiles in device memory.
#ifndef CHORALE_TESTS_KERNELS_CUDA_DEVICE_TILES_H_
#define CHORALE_TESTS_KERNELS_CUDA_DEVICE_TILES_H_

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/layout/tile.h"
#include "tests/kernels/cuda/device_test.h"

namespace chorale::kernels::cuda {

// Verifies the fields that no kernel can verify.
inline DeviceArray<Tile> DeviceTiles(const std::vector<Tile>& tiles) {
  for (const Tile& tile : tiles) {
    EXPECT_GE(tile.context_capacity, tile.context_rows);
    if (tile.first_row < 0) continue;
    EXPECT_EQ(tile.first_row % kTileRows, 0);
    EXPECT_GE(tile.encode_first, 0);
    EXPECT_LT(tile.encode_first, tile.encode_rows);
    EXPECT_LE(tile.encode_rows, kTileRows);
    EXPECT_LE(tile.first_row + tile.encode_rows, tile.context_rows);
  }
  return DeviceArray<Tile>(tiles);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_DEVICE_TILES_H_
