// Every layout of the row encoder puts every element at an index of its own, and padding is zero.
#include "kernels/cuda/row_encoder/cell_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/kernels/cuda/row_encoder/cell_reference.h"

namespace chorale::kernels::cuda {
namespace {

bool EachOnce(std::vector<int64_t> indices) {
  std::sort(indices.begin(), indices.end());
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

TEST(CellLayoutTest, EveryElementHasItsPlace) {
  std::vector<int64_t> matrix, tile, cells;
  for (int o = 0; o < 24; ++o) {
    for (int i = 0; i < 96; ++i) matrix.push_back(CellWeightAt(o, i, 96));
  }
  for (int token = 0; token < kCellTileTokens; ++token) {
    for (int d = 0; d < kCellWidth; ++d) {
      tile.push_back(CellTileKeyAt(token, d));
      tile.push_back(CellTileValueAt(token, d));
      cells.push_back(CellAt(token, d));
    }
  }
  EXPECT_TRUE(EachOnce(matrix));
  EXPECT_TRUE(EachOnce(tile));
  EXPECT_EQ(static_cast<int>(tile.size()), kCellTileKvSize);
  EXPECT_TRUE(EachOnce(cells));
}

TEST(CellWeightsTest, MatricesAreRoundedAndPadded) {
  const Matrix matrix = {{1.0f, 2.0f, 3.0f, 1.00390625f}, 2, 2};  // the last one is halfway
  const std::vector<uint16_t> packed = PackCellMatrix(matrix, 8, 32);
  ASSERT_EQ(packed.size(), 8u * 32);
  EXPECT_EQ(FromBf16(packed[CellWeightAt(0, 1, 32)]), 2.0f);
  EXPECT_EQ(FromBf16(packed[CellWeightAt(1, 0, 32)]), 3.0f);
  EXPECT_EQ(FromBf16(packed[CellWeightAt(1, 1, 32)]), 1.0f);
  EXPECT_EQ(std::count(packed.begin(), packed.end(), 0), 8 * 32 - 4);
}

TEST(CellWeightsTest, NarrowHeadsAreSpreadOut) {
  // Two heads of width 8: each begins 16 elements after the previous one.
  const std::vector<uint16_t> block = CellBlockReference({.width = 16, .heads = 2}, 1).Packed();
  ASSERT_EQ(block.size() * sizeof(uint16_t), static_cast<size_t>(kCellBlockBytes));
  const auto at = [&](int matrix, int out, int in, int inputs) {
    return block[matrix + CellWeightAt(out, in, inputs)];
  };
  for (int matrix : {kCellBlockWq, kCellBlockWk, kCellBlockWv}) {
    EXPECT_NE(at(matrix, 7, 15, kCellWidth), 0);
    EXPECT_EQ(at(matrix, 8, 15, kCellWidth), 0);
    EXPECT_NE(at(matrix, 23, 15, kCellWidth), 0);
    EXPECT_EQ(at(matrix, 24, 15, kCellWidth), 0);
    EXPECT_EQ(at(matrix, 7, 16, kCellWidth), 0);
  }
  EXPECT_NE(at(kCellBlockWo, 15, 23, kCellWidth), 0);
  EXPECT_EQ(at(kCellBlockWo, 15, 8, kCellWidth), 0);
  EXPECT_EQ(at(kCellBlockWo, 16, 23, kCellWidth), 0);
  EXPECT_NE(at(kCellBlockW1, 31, 15, kCellWidth), 0);
  EXPECT_NE(at(kCellBlockW2, 15, 31, kCellHidden), 0);
  float vectors[kCellBlockVectors];
  std::memcpy(vectors, block.data() + kCellBlockMatrices, sizeof(vectors));
  EXPECT_NE(vectors[kCellBlockGamma1 + 15], 0);
  EXPECT_EQ(vectors[kCellBlockGamma1 + 16], 0);
  EXPECT_NE(vectors[kCellBlockB1 + 31], 0);
}

TEST(CellWeightsTest, KeysAndValuesOfFewTokens) {
  // One token with two heads of width 8: K is 1 to 16, V is 17 to 32.
  std::vector<float> projected(32);
  for (int i = 0; i < 32; ++i) projected[i] = static_cast<float>(i + 1);
  std::vector<uint16_t> tile(kCellTileKvSize, 0xffff);
  PackCellTileKv(projected.data(), 1, 16, 2, tile.data());
  EXPECT_EQ(FromBf16(tile[CellTileKeyAt(0, 7)]), 8);
  EXPECT_EQ(FromBf16(tile[CellTileKeyAt(0, 16)]), 9);
  EXPECT_EQ(FromBf16(tile[CellTileValueAt(0, 0)]), 17);
  EXPECT_EQ(FromBf16(tile[CellTileValueAt(0, 23)]), 32);
  EXPECT_EQ(std::count(tile.begin(), tile.end(), 0), kCellTileKvSize - 32);
}

}  // namespace
}  // namespace chorale::kernels::cuda
