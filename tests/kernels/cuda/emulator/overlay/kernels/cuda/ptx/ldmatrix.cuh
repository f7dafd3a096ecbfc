// Stands in for kernels/cuda/ptx/ldmatrix.cuh.
#ifndef CHORALE_KERNELS_CUDA_PTX_LDMATRIX_CUH_
#define CHORALE_KERNELS_CUDA_PTX_LDMATRIX_CUH_

#include <cstdint>
#include <cstring>

#include "tests/kernels/cuda/emulator/emulator.h"

namespace chorale::kernels::cuda {

// A row of a matrix, of those whose addresses the lanes pass.
inline const uint16_t* MatrixRow(const char* rows, int matrix, int row) {
  uint32_t address;
  std::memcpy(&address, rows + (8 * matrix + row) * emulator::kExchangeBytes, sizeof(address));
  const auto* at = emulator::DynamicSmem() + address;
  emulator::RequireAligned(at, 16);
  return reinterpret_cast<const uint16_t*>(at);
}
inline void LoadMatrices(uint32_t row, uint32_t (&words)[4]) {
  const char* rows = emulator::Exchange(&row, sizeof(row));
  const int lane = emulator::Lane();
  for (int i = 0; i < 4; ++i) {
    std::memcpy(&words[i], MatrixRow(rows, i, lane / 4) + lane % 4 * 2, sizeof(words[i]));
  }
}
inline void LoadMatricesTransposed(uint32_t row, uint32_t (&words)[4]) {
  const char* rows = emulator::Exchange(&row, sizeof(row));
  const int lane = emulator::Lane();
  for (int i = 0; i < 4; ++i) {
    const uint16_t first = MatrixRow(rows, i, lane % 4 * 2)[lane / 4];
    const uint16_t second = MatrixRow(rows, i, lane % 4 * 2 + 1)[lane / 4];
    words[i] = first | static_cast<uint32_t>(second) << 16;
  }
}
inline uint32_t TransposeMatrix(uint32_t words) {
  const char* rows = emulator::Exchange(&words, sizeof(words));
  const int lane = emulator::Lane();
  uint16_t column[2];
  for (int i = 0; i < 2; ++i) {
    uint16_t of_lane[2];
    const int row = lane % 4 * 2 + i;
    std::memcpy(of_lane, rows + (4 * row + lane / 8) * emulator::kExchangeBytes, sizeof(of_lane));
    column[i] = of_lane[lane / 4 % 2];
  }
  return column[0] | static_cast<uint32_t>(column[1]) << 16;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_LDMATRIX_CUH_
