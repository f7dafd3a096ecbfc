// Every layout puts every element in a position of its own, and where the comments say.
#include "kernels/cuda/layout/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace chorale::kernels::cuda {
namespace {

// Counts how often each of n positions is taken.
class Places {
 public:
  explicit Places(int64_t n) : taken_(n) {}
  void Take(int64_t position) {
    ASSERT_GE(position, 0);
    ASSERT_LT(position, static_cast<int64_t>(taken_.size()));
    ++taken_[position];
  }
  bool EachOnce() const {
    return std::all_of(taken_.begin(), taken_.end(), [](int n) { return n == 1; });
  }

 private:
  std::vector<int> taken_;
};

TEST(LayoutTest, RowsOfATile) {
  Places positions(kTileRows);
  for (int path = 0; path < kTilePaths; ++path) {
    positions.Take(TileRow(path, Role::kTarget));
    positions.Take(TileRow(path, Role::kBuffer));
    EXPECT_EQ(TileRow(path, Role::kBuffer), TileRow(path, Role::kTarget) + 8);
  }
  EXPECT_TRUE(positions.EachOnce());
  EXPECT_EQ(TileRow(9, Role::kTarget), 17);
}

TEST(LayoutTest, KeysAndValuesOfABlock) {
  for (int head_dim : {16, 32, 64, 128}) {
    Places positions(BlockSize(head_dim));
    for (int key = 0; key < kBlockKeys; ++key) {
      for (int d = 0; d < head_dim; ++d) {
        positions.Take(BlockKeyAt(key, d, head_dim));
        positions.Take(BlockValueAt(key, d, head_dim));
      }
    }
    EXPECT_TRUE(positions.EachOnce()) << head_dim;
  }
  // With 32 columns keys are simply rows; neighbouring columns stay neighbours with any width.
  EXPECT_EQ(BlockKeyAt(5, 7, 32), 5 * 32 + 7);
  EXPECT_EQ(BlockKeyAt(9, 33, 64), (2 * 1 + 1) * 8 * 32 + 1 * 32 + 1);
  // Key 3, column 1 of 16: group 0, lane 1 * 4 + 1, columns 0..7, keys 2j and 2j+1 of the first 8.
  EXPECT_EQ(BlockValueAt(3, 1, 16), 64 * 16 + 5 * 8 + 0 + 0 + 1);
  EXPECT_EQ(BlockValueAt(16 + 8 + 3, 9, 16), 64 * 16 + 256 + 5 * 8 + 4 + 2 + 1);
}

TEST(LayoutTest, Buffers) {
  for (int head_dim : {16, 32, 64, 128}) {
    Places positions(BufferLayerSize(3, 16, 2, head_dim));
    for (int head = 0; head < 2; ++head) {
      for (int position = 0; position < 3; ++position) {
        for (int path = 0; path < 16; ++path) {
          const int64_t key = BufferKeyAt(head, position, path, 3, 16, head_dim);
          for (int d = 0; d < head_dim; ++d) {
            positions.Take(key + d);
            positions.Take(key + 16 * head_dim + BufferValueColumn(d, head_dim));
          }
        }
      }
    }
    EXPECT_TRUE(positions.EachOnce()) << head_dim;
  }
  // Lane j's columns {2j, 2j+1} of every 8 lie together: 8 + 2, with lane 1 of 4.
  EXPECT_EQ(BufferValueColumn(10, 32), 8 + 2);
  EXPECT_EQ(BufferValueColumn(10, 16), 4 + 2);
}

TEST(LayoutTest, WeightTiles) {
  Places positions(kWeightTileSize);
  for (int output = 0; output < kWeightTileOutputs; ++output) {
    for (int input = 0; input < kWeightTileInputs; ++input)
      positions.Take(WeightTileAt(output, input));
  }
  EXPECT_TRUE(positions.EachOnce());
  // Warp 1, inputs 32..63, outputs 8..15 of the warp's 16, lane (1, 2).
  EXPECT_EQ(WeightTileAt(3 * 8 + 1, 32 + 8 * 2 + 3), (3 * 4 + 1) * 256 + (4 + 2) * 8 + 3);
}

TEST(LayoutTest, ChunksAndBlocks) {
  EXPECT_EQ(ContextBlocks(64), 1);
  EXPECT_EQ(ContextBlocks(65), 2);
  EXPECT_EQ(ContextSplits(0), kMinSplits);
  EXPECT_EQ(ContextSplits(1), kMinSplits);
  EXPECT_EQ(ContextSplits(4 * 128), 4);
  EXPECT_EQ(ContextSplits(4 * 128 + 1), 5);
  EXPECT_EQ(ContextSplits(1024), 8);
  EXPECT_EQ(ContextSplits(8192), kMaxSplits);
  EXPECT_EQ(ContextSplits(65536), kMaxSplits);
  EXPECT_LT(ContextSplits(4097), ContextSplits(4096)) << "longer splits";
  for (int64_t rows = 0; rows <= 10000; ++rows) {
    ASSERT_GE(MaxContextSplits(rows), ContextSplits(rows)) << rows;
    ASSERT_GE(MaxContextSplits(rows + 1), MaxContextSplits(rows)) << rows;
  }
}

}  // namespace
}  // namespace chorale::kernels::cuda
