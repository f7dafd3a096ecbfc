// Every layout stores every element exactly once, and where the comments say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/head/head_layout.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/layout/weight_tiles.h"

namespace chorale::kernels::cuda {
namespace {

// Counts how often each of n indices is used.
class Indices {
 public:
  explicit Indices(int64_t n) : used_(n) {}
  void Use(int64_t index) {
    ASSERT_GE(index, 0);
    ASSERT_LT(index, static_cast<int64_t>(used_.size()));
    ++used_[index];
  }
  bool EachOnce() const {
    return std::all_of(used_.begin(), used_.end(), [](int n) { return n == 1; });
  }

 private:
  std::vector<int> used_;
};

TEST(LayoutTest, KeyBlock) {
  for (int head_dim : {16, 32, 64, 128}) {
    Indices indices(KeyBlockSize(head_dim));
    for (int key = 0; key < kKeyBlockKeys; ++key) {
      for (int d = 0; d < head_dim; ++d) {
        indices.Use(KeyBlockKeyAt(key, d, head_dim));
        indices.Use(KeyBlockValueAt(key, d, head_dim));
      }
    }
    EXPECT_TRUE(indices.EachOnce()) << head_dim;
    for (int key = 0; key < kKeyBlockKeys; ++key) {
      for (int d = 0; d < head_dim; ++d) {
        ASSERT_EQ(KeyBlockValueColumn(KeyBlockValueAt(key, d / 8 * 8, head_dim), d % 8, head_dim),
                  KeyBlockValueAt(key, d, head_dim));
      }
    }
  }
  // With 16 columns keys are simply rows; 8 neighbouring columns stay neighbours with any width.
  EXPECT_EQ(KeyBlockKeyAt(5, 7, 16), 5 * 16 + 7);
  // Row 5 of its 8: piece 0 lies in place 0 ^ 2.
  EXPECT_EQ(KeyBlockKeyAt(5, 7, 32), 5 * 32 + 2 * 8 + 7);
  EXPECT_EQ(KeyBlockKeyAt(9, 33, 64), (2 * 1 + 1) * 8 * 32 + 1 * 32 + 1);
  // Row 5 of its 8: piece 1 lies in place 1 ^ 2.
  EXPECT_EQ(KeyBlockKeyAt(13, 41, 64), (2 * 1 + 1) * 8 * 32 + 5 * 32 + 3 * 8 + 1);
  // Key 3, column 1 of 16: group 0, lane 1 * 4 + 1, columns 0..7, keys 2j and 2j+1 of the first 8.
  EXPECT_EQ(KeyBlockValueAt(3, 1, 16), 64 * 16 + 5 * 8 + 0 + 0 + 1);
  EXPECT_EQ(KeyBlockValueAt(16 + 8 + 3, 9, 16), 64 * 16 + 256 + 5 * 8 + 4 + 2 + 1);
  // Key 11 of the second 32, column 5 of the second 8, as in K.
  EXPECT_EQ(KeyBlockValueAt(32 + 11, 8 + 5, 64), 64 * 64 + (8 + 1) * 256 + 5 * 32 + 3 * 8 + 3);
}

TEST(LayoutTest, ContextWeights) {
  EXPECT_EQ(ContextWeights(64), 64);
  EXPECT_EQ(ContextWeights(65), 128);
  Indices indices(3 * 2 * ContextWeights(65));
  for (int layer = 0; layer < 3; ++layer) {
    for (int head = 0; head < 2; ++head) {
      for (int key = 0; key < 128; ++key) indices.Use(ContextWeightsAt(layer, head, 65, 2) + key);
    }
  }
  EXPECT_TRUE(indices.EachOnce());
}

TEST(LayoutTest, Buffers) {
  for (int head_dim : {16, 32, 64, 128}) {
    Indices indices(BufferLayerSize(3, 16, 2, head_dim));
    for (int head = 0; head < 2; ++head) {
      for (int position = 0; position < 3; ++position) {
        for (int path = 0; path < 16; ++path) {
          const int64_t key = BufferKeyAt(head, position, path, 3, 16, head_dim);
          for (int d = 0; d < head_dim; ++d) {
            indices.Use(key + d);
            indices.Use(key + 16 * head_dim + d);
          }
        }
      }
    }
    EXPECT_TRUE(indices.EachOnce()) << head_dim;
  }
}

TEST(LayoutTest, KeyBlocksOfAContext) {
  // 130 rows are 3 key blocks, of 2 * 64 * 16 elements. With 2 heads, a layer has 6 of them.
  EXPECT_EQ(ContextKeyBlockAt(0, 0, 2, 130, 2, 16), 2 * 2048);
  EXPECT_EQ(ContextKeyBlockAt(0, 1, 0, 130, 2, 16), 3 * 2048);
  EXPECT_EQ(ContextKeyBlockAt(2, 1, 1, 130, 2, 16), (2 * 6 + 3 + 1) * 2048);
  EXPECT_EQ(ContextKeyBlockAt(2, 0, 0, 130, 2, 16), 2 * ContextLayerSize(130, 2, 16));
}

TEST(LayoutTest, HeadMap) {
  Indices indices(HeadMapSize(128, 64));
  for (int output = 0; output < 128; ++output) {
    for (int input = 0; input < 64; ++input) {
      indices.Use(HeadMapAt(output, input, 64));
      indices.Use(HeadMapAt(output, input, 64) + kHeadFragment / 2);
    }
  }
  EXPECT_TRUE(indices.EachOnce());
}

TEST(LayoutTest, HeadQuads) {
  for (int sets : {1, 4}) {
    Indices indices(HeadQuadAt(0, 64, sets));
    for (int row = 0; row < sets * kHeadRows; ++row) {
      for (int input = 0; input < 64; input += 4) indices.Use(HeadQuadAt(row, input, sets));
    }
    EXPECT_TRUE(indices.EachOnce());
  }
}

TEST(LayoutTest, WeightTiles) {
  Indices indices(kWeightTileSize);
  for (int output = 0; output < kWeightTileOutputs; ++output) {
    for (int input = 0; input < kWeightTileInputs; ++input)
      indices.Use(WeightTileAt(output, input));
  }
  EXPECT_TRUE(indices.EachOnce());
  // Warp 1, inputs 32..63, outputs 8..15 of the warp's 16, lane (1, 2).
  EXPECT_EQ(WeightTileAt(3 * 8 + 1, 32 + 8 * 2 + 3), (3 * 4 + 1) * 256 + (4 + 2) * 8 + 3);
}

TEST(LayoutTest, KvSplits) {
  EXPECT_EQ(ContextKeyBlocks(64), 1);
  EXPECT_EQ(ContextKeyBlocks(65), 2);
  EXPECT_EQ(ContextSplits(0), 0);
  EXPECT_EQ(ContextSplits(1), 1);
  EXPECT_EQ(ContextSplits(4 * 256), 4);
  EXPECT_EQ(ContextSplits(4 * 256 + 1), 5);
  EXPECT_EQ(ContextSplits(16 * 256), 16);
  EXPECT_LT(ContextSplits(16 * 256 + 1), 16) << "longer splits";
  EXPECT_EQ(ContextSplits(8192), 16);
  EXPECT_EQ(ContextSplits(8192 + 1), 17);
  EXPECT_EQ(ContextSplits(16384), kMaxContextSplits);
  EXPECT_LT(ContextSplits(16384 + 1), kMaxContextSplits) << "longer splits";
  EXPECT_EQ(ContextSplits(65536), kMaxContextSplits);
  for (int64_t splits = 1; splits <= kMaxContextSplits; ++splits) {
    EXPECT_EQ(ContextSplits(RowsOfSplits(splits)), splits);
    EXPECT_EQ(MaxContextSplits(RowsOfSplits(splits)), splits);
  }
  EXPECT_EQ(BufferSplits(0), 0);
  EXPECT_EQ(BufferSplits(kBufferChunk), 1);
  EXPECT_EQ(BufferSplits(kBufferChunk + 1), 2);
  EXPECT_EQ(BufferSplits(1000), kMaxBufferSplits);
  EXPECT_EQ(KvSplits(1024, 2 * kBufferChunk), 4 + 2);
  for (int64_t rows = 0; rows <= 70'000; ++rows) {
    ASSERT_EQ(SplitKeyBlocks(rows) % 2, 0) << rows;
    ASSERT_GE(MaxContextSplits(rows), ContextSplits(rows)) << rows;
    ASSERT_GE(MaxContextSplits(rows + 1), MaxContextSplits(rows)) << rows;
  }
}

TEST(Float16Test, RoundsToNearestEven) {
  for (int bits = 0; bits < 0x7c00; ++bits) {
    const float value = FromFp16(bits);
    EXPECT_EQ(ToFp16(value), bits);
    EXPECT_EQ(ToFp16(-value), bits | 0x8000);
    if (bits == 0x7bff) break;
    const float middle = (value + FromFp16(bits + 1)) / 2;
    EXPECT_EQ(ToFp16(middle), bits + bits % 2);
    EXPECT_EQ(ToFp16(std::nextafter(middle, 0.0f)), bits);
    EXPECT_EQ(ToFp16(std::nextafter(middle, 1e6f)), bits + 1);
  }
  EXPECT_EQ(FromFp16(1), 0x1p-24f);
  EXPECT_EQ(FromFp16(0x3c00), 1.0f);
  EXPECT_EQ(ToFp16(65519.0f), 0x7bff);
  EXPECT_EQ(ToFp16(65520.0f), 0x7c00);
  EXPECT_EQ(FromFp16(0xfc00), -INFINITY);
  EXPECT_TRUE(std::isnan(FromFp16(ToFp16(NAN))));
}

}  // namespace
}  // namespace chorale::kernels::cuda
