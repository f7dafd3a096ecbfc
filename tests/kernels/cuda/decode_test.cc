// The decode kernel has the bits of the kernels that take one layer each.
#include "kernels/cuda/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>

#include "kernels/cuda/layout.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/cuda/small_decode.h"

namespace chorale::kernels::cuda {
namespace {

struct Case {
  std::string name;
  SmallModel model;
  std::vector<SmallTile> tiles;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

const std::vector<SmallTile> kTwoTiles = {
    {}, {.context_rows = 1, .paths = 11, .steps = 3, .in_order = false}};

const Case kCases[] = {
    {"usual", {.layers = 2}, kTwoTiles},
    // Several rounds of chunks, the last one with chunks that have one block, and no context.
    {"long_contexts",
     {.layers = 2},
     {{.context_rows = 64 * 9 + 5, .paths = 3, .in_order = false},
      {.context_rows = 64 * 20, .paths = 20, .steps = 2}}},
    {"given", {.layers = 1}, {{.drawn = false}, {.paths = 9, .steps = 2, .drawn = false}}},
    // Lanes that do not divide the warps, and a key head that two passes share.
    {"three_heads",
     {.layers = 2, .width = 96, .heads = 3, .kv_heads = 1, .hidden = 100},
     {{.context_rows = 400, .paths = 13}}},
    {"twelve_heads_of_four",
     {.layers = 2, .width = 128, .heads = 12, .kv_heads = 4, .hidden = 136},
     {{.context_rows = 200, .paths = 32, .steps = 2}}},
    {"twelve_heads_of_one",
     {.layers = 1, .width = 64, .heads = 12, .kv_heads = 1, .hidden = 64},
     {{.context_rows = 200, .paths = 32, .steps = 2}}},
    {"one_head",
     {.layers = 2, .width = 32, .heads = 1, .kv_heads = 1, .hidden = 64},
     {{.context_rows = 1100, .paths = 8, .steps = 2}}},
    {"twenty_heads",
     {.layers = 1, .width = 128, .heads = 20, .kv_heads = 20},
     {{.context_rows = 130, .paths = 9, .steps = 2}}},
    {"wide",
     {.layers = 1, .width = 256, .heads = 8, .kv_heads = 8, .hidden = 512},
     {{.context_rows = 300, .paths = 17, .steps = 2}}},
    {"wide_hidden",
     {.layers = 2, .width = 256, .heads = 8, .kv_heads = 8, .hidden = 1024},
     {{.context_rows = 1024, .paths = 32}}},
    {"widest",
     {.layers = 1, .width = 512, .heads = 16, .kv_heads = 2, .hidden = 512},
     {{.context_rows = 100, .paths = 8, .steps = 2}}},
    {"heads_of_64",
     {.layers = 2, .width = 128, .heads = 2, .kv_heads = 2, .head_dim = 64},
     {{.context_rows = 300, .paths = 32, .steps = 2}}},
};

class DecodeTest : public DeviceTest, public ::testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    if (properties_.compute_major != kWarpgroupComputeMajor) {
      GTEST_SKIP() << "needs compute capability " << kWarpgroupComputeMajor << ".0";
    }
    SetDecodeWay(DecodeWay::kAtOnce);
  }
  void TearDown() override {
    SetDecodeWay(DecodeWay::kBest);
    DeviceTest::TearDown();
  }
};

TEST_P(DecodeTest, HasTheBitsOfKernelsThatTakeOneLayerEach) {
  SmallDecode decode(GetParam().model, GetParam().tiles, properties_);
  const SmallDecode::Result expected = decode.LayerByLayer(ChunkSplit::kTogether, 16, stream_);
  const SmallDecode::Result of_warpgroups = decode.LayerByLayer(ChunkSplit::kTogether, 32, stream_);
  EXPECT_EQ(of_warpgroups.values, expected.values);
  EXPECT_EQ(of_warpgroups.densities, expected.densities);
  EXPECT_TRUE(of_warpgroups.buffers == expected.buffers);
  for (uint32_t bits : expected.values) ASSERT_TRUE(std::isfinite(std::bit_cast<float>(bits)));
  const int shared_bytes = properties_.shared_bytes_per_block;
  const int most_rows = ChooseDecodeRows(decode.Params(), {.tiles_with = {0, 0, 0, 0, 9}},
                                         /*multiprocessors=*/1, shared_bytes);
  ASSERT_GE(most_rows, kGroupRows);
  for (int rows = kGroupRows; rows <= most_rows; rows *= 2) {
    const SmallDecode::Result at_once = decode.AtOnce(rows, shared_bytes, stream_);
    EXPECT_EQ(at_once.values, expected.values) << rows << " rows";
    EXPECT_EQ(at_once.densities, expected.densities) << rows << " rows";
    EXPECT_TRUE(at_once.buffers == expected.buffers) << rows << " rows";
  }
}

class ChooseDecodeRowsTest : public ::testing::Test {
 protected:
  ChooseDecodeRowsTest() { SetDecodeWay(DecodeWay::kAtOnce); }
  ~ChooseDecodeRowsTest() override { SetDecodeWay(DecodeWay::kBest); }

  static int Choose(const DecodeParams& params, const DecodeCrowd& crowd) {
    return ChooseDecodeRows(params, crowd, /*multiprocessors=*/132, /*shared_bytes=*/227 << 10);
  }
  // So many full tiles.
  static int Choose(const DecodeParams& params, int64_t tiles) {
    return Choose(params,
                  {.tiles_with = {0, 0, 0, 0, tiles}, .largest_context = 1024, .steps = 32});
  }

  DecodeParams params_ = {.head = {},
                          .layer_count = 12,
                          .width = 128,
                          .heads = 4,
                          .kv_heads = 4,
                          .head_dim = 32,
                          .hidden = 256,
                          .components = 20};
};

TEST_F(ChooseDecodeRowsTest, TheFewestWithWhichAllBlocksRunAtOnce) {
  EXPECT_EQ(Choose(params_, 1), 16);
  EXPECT_EQ(Choose(params_, 33), 16);
  EXPECT_EQ(Choose(params_, 34), 32);
  EXPECT_EQ(Choose(params_, 66), 32);
  EXPECT_EQ(Choose(params_, 67), 64);
  EXPECT_EQ(Choose(params_, 100'000), 64);
}

// A tile of one group takes a block of any size.
TEST_F(ChooseDecodeRowsTest, NoMoreRowsThanTilesHave) {
  DecodeCrowd crowd = {.tiles_with = {0, 200}, .largest_context = 1024, .steps = 32};
  EXPECT_EQ(Choose(params_, crowd), 16);
  crowd.tiles_with[2] = 1;
  EXPECT_EQ(Choose(params_, crowd), 32);
  EXPECT_EQ(crowd.Blocks(16), 202);
  EXPECT_EQ(crowd.Blocks(32), 201);
}

TEST_F(ChooseDecodeRowsTest, NoMoreThanSharedMemoryHolds) {
  params_.width = 256;
  params_.heads = params_.kv_heads = 8;
  params_.hidden = 1024;
  EXPECT_EQ(Choose(params_, 100'000), 32);
  params_.width = 512;
  params_.heads = params_.kv_heads = 16;
  params_.hidden = 4096;
  EXPECT_EQ(Choose(params_, 1), 0);
}

TEST_F(ChooseDecodeRowsTest, LayerByLayerWhereTheKernelCannot) {
  EXPECT_EQ(Choose(params_, {.tiles_with = {0, 1}, .steps = 1'000'000}), 0);
  params_.head_dim = 16;
  EXPECT_EQ(Choose(params_, 1), 0);
  params_.head_dim = 64;
  EXPECT_EQ(Choose(params_, 1), 16);
  SetDecodeWay(DecodeWay::kLayerByLayer);
  EXPECT_EQ(Choose(params_, 1), 0);
}

TEST(ValidateDecodeTest, NamesTheField) {
  Tile tile;
  PathTile paths;
  LayerWeights layer;
  float vector = 0;
  const float* const v = &vector;
  const DecodeParams good = {.tiles = &tile,
                             .paths = &paths,
                             .layers = &layer,
                             .offsets = v,
                             .y_weight = v,
                             .head = {v, v, v, v, v, v, v, v, v},
                             .tile_count = 1,
                             .layer_count = 12,
                             .width = 128,
                             .heads = 4,
                             .kv_heads = 4,
                             .head_dim = 32,
                             .hidden = 256,
                             .components = 20,
                             .places = 32,
                             .epsilon = 1e-5f,
                             .std_min = 1e-3f,
                             .std_max = 10};
  EXPECT_EQ(ValidateDecode(good), absl::OkStatus());
  const auto message = [&](auto change) {
    DecodeParams p = good;
    change(p);
    return std::string(ValidateDecode(p).message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](DecodeParams& p) { p.layers = nullptr; }), HasSubstr("layers is null"));
  EXPECT_THAT(message([](DecodeParams& p) { p.y_weight = nullptr; }), HasSubstr("y_weight"));
  EXPECT_THAT(message([](DecodeParams& p) { p.places = 0; }), HasSubstr("places"));
  EXPECT_THAT(message([](DecodeParams& p) { p.layer_count = 0; }), HasSubstr("layer_count"));
  EXPECT_THAT(message([](DecodeParams& p) { p.width = 100; }), HasSubstr("width"));
  EXPECT_THAT(message([](DecodeParams& p) { p.kv_heads = 3; }), HasSubstr("kv_heads"));
  EXPECT_THAT(message([](DecodeParams& p) { p.head.w1 = nullptr; }), HasSubstr("w1"));
  EXPECT_THAT(message([](DecodeParams& p) { p.components = 0; }), HasSubstr("components"));
}

INSTANTIATE_TEST_SUITE_P(Shapes, DecodeTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace chorale::kernels::cuda
