#include "kernels/cuda/layer/pack_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/weight_tiles.h"

namespace chorale::kernels::cuda {
namespace {

using ::testing::ElementsAre;

TEST(Bf16Test, RoundsToTheNearestAndTiesToEven) {
  // Between 1 and 2, numbers are 2^-7 apart.
  EXPECT_EQ(FromBf16(ToBf16(1.0f)), 1.0f);
  EXPECT_EQ(FromBf16(ToBf16(1.0f + 0x1p-9f)), 1.0f);
  EXPECT_EQ(FromBf16(ToBf16(1.0f + 0x1p-8f)), 1.0f);                // tie, down to even
  EXPECT_EQ(FromBf16(ToBf16(1.0f + 3 * 0x1p-8f)), 1.0f + 0x1p-6f);  // tie, up to even
  EXPECT_EQ(FromBf16(ToBf16(-1.0f - 0x1.8p-8f)), -1.0f - 0x1p-7f);
}

TEST(PadHeadsTest, PutsZerosBehindEveryHead) {
  const Matrix matrix = {{1, 2, 3, 4}, 2, 2};
  const Matrix outputs = PadHeadOutputs(matrix, 1, 2);
  EXPECT_EQ(outputs.out, 4);
  EXPECT_THAT(outputs.values, ElementsAre(1, 2, 0, 0, 3, 4, 0, 0));
  const Matrix inputs = PadHeadInputs(matrix, 1, 2);
  EXPECT_EQ(inputs.in, 4);
  EXPECT_THAT(inputs.values, ElementsAre(1, 0, 2, 0, 3, 0, 4, 0));
}

TEST(PackWeightTilesTest, OrderOfTheTiles) {
  // Every matrix has two weight tiles each way. The elements of a weight tile name it:
  // 10 m + 2 (o / 128) + i / 128.
  const ModelShape shape = {
      .width = 130, .heads = 65, .kv_heads = 30, .head_dim = 2, .hidden = 129};
  const auto matrix = [](int name, int64_t out, int64_t in) {
    Matrix m = {{}, out, in};
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i) m.values.push_back(10 * name + 2 * (o / 128) + i / 128);
    }
    return m;
  };
  const std::vector<uint16_t> post_attention =
      PackPostAttentionTiles(matrix(1, 130, 130), matrix(2, 129, 130), matrix(3, 130, 129));
  ASSERT_EQ(static_cast<int64_t>(post_attention.size()),
            PostAttentionTiles(shape) * kWeightTileSize);
  std::vector<float> names;
  for (size_t i = 0; i < post_attention.size(); i += kWeightTileSize)
    names.push_back(FromBf16(post_attention[i]));
  EXPECT_THAT(names, ElementsAre(10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33));

  const std::vector<uint16_t> pre_attention =
      PackPreAttentionTiles(matrix(1, 130, 130), matrix(2, 250, 130));
  ASSERT_EQ(static_cast<int64_t>(pre_attention.size()), PreAttentionTiles(shape) * kWeightTileSize);
  names.clear();
  for (size_t i = 0; i < pre_attention.size(); i += kWeightTileSize)
    names.push_back(FromBf16(pre_attention[i]));
  EXPECT_THAT(names, ElementsAre(10, 11, 12, 13, 20, 21, 22, 23));
  EXPECT_EQ(pre_attention[3 * kWeightTileSize + WeightTileAt(2, 0)], 0) << "beyond the matrix";
  EXPECT_EQ(FromBf16(pre_attention[3 * kWeightTileSize + WeightTileAt(1, 1)]), 13);
}

// Names each element of two weight tiles.
uint16_t NameOf(int weight_tile, int output, int input) {
  return static_cast<uint16_t>(weight_tile * kWeightTileSize + output * kWeightTileInputs + input);
}
std::vector<uint16_t> NamedTiles() {
  std::vector<uint16_t> weight_tiles(2 * kWeightTileSize);
  for (int weight_tile = 0; weight_tile < 2; ++weight_tile) {
    for (int o = 0; o < kWeightTileOutputs; ++o) {
      for (int i = 0; i < kWeightTileInputs; ++i) {
        weight_tiles[weight_tile * kWeightTileSize + WeightTileAt(o, i)] =
            NameOf(weight_tile, o, i);
      }
    }
  }
  return weight_tiles;
}

// The outputs of the rows of a wgmma tile are output_of(row); its inputs are in the order of mma.
template <typename OutputOf>
void ExpectOrder(const std::vector<uint16_t>& wgmma_tiles, const OutputOf& output_of) {
  ASSERT_EQ(wgmma_tiles.size(), size_t{2} * kWeightTileSize);
  for (int wgmma_tile = 0; wgmma_tile < 8; ++wgmma_tile) {
    for (int step = 0; step < kWgmmaTileInputs / 16; ++step) {
      for (int row = 0; row < kWgmmaTileOutputs; ++row) {
        for (int element = 0; element < 16; ++element) {
          const int output = wgmma_tile % 4 / 2 * 64 + output_of(row);
          // Lane j of mma has elements 2j, 2j + 1, 2j + 8 and 2j + 9, and inputs 8j to 8j + 7 of
          // 32.
          const int input = wgmma_tile % 2 * 64 + step / 2 * 32 + element % 8 / 2 * 8 +
                            step % 2 * 4 + element / 8 * 2 + element % 2;
          const int at = wgmma_tile * kWgmmaTileSize + step * 16 * kWgmmaTileOutputs +
                         element / 8 * (kWgmmaTileHalfBytes / 2) + row / 8 * 64 + row % 8 * 8 +
                         element % 8;
          ASSERT_EQ(wgmma_tiles[at], NameOf(wgmma_tile / 4, output, input)) << at;
        }
      }
    }
  }
}

// Neighbouring outputs are 8 rows apart.
TEST(PackWgmmaTilesTest, OrderOfTheInstruction) {
  ExpectOrder(PackWgmmaTiles(NamedTiles()),
              [](int row) { return row / 16 * 16 + row % 8 * 2 + row % 16 / 8; });
}

// Of every 8 rows of 32, lane j has two columns: together, 8 neighbouring outputs.
TEST(PackWgmmaTilesTest, OrderOfColumnTiles) {
  ExpectOrder(PackWgmmaColumnTiles(NamedTiles()),
              [](int row) { return row / 32 * 32 + row % 8 / 2 * 8 + row % 32 / 8 * 2 + row % 2; });
}

}  // namespace
}  // namespace chorale::kernels::cuda
