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
    {"usual", {}, kTwoTiles},
    // Several rounds of chunks, the last one with chunks that have one block, and no context.
    {"long_contexts",
     {.layers = 2},
     {{.context_rows = 64 * 9 + 5, .paths = 3, .in_order = false},
      {.context_rows = 64 * 20, .paths = 20, .steps = 2}}},
    {"given", {}, {{.drawn = false}, {.paths = 9, .drawn = false}}},
    // Lanes that do not divide the warps, and a key head that two passes share.
    {"three_heads",
     {.layers = 2, .width = 96, .heads = 3, .kv_heads = 1, .hidden = 100},
     {{.context_rows = 400, .paths = 13}}},
    {"twelve_heads_of_four",
     {.layers = 2, .width = 128, .heads = 12, .kv_heads = 4, .hidden = 136},
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
    {"widest",
     {.layers = 1, .width = 512, .heads = 8, .kv_heads = 2, .head_dim = 64, .hidden = 512},
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
    int devices = 0;
    ExpectSuccess(CountDevices(&devices), "counting");
    ExpectSuccess(OpenDevice(&properties_), "opening the device");
    if (properties_.compute_major < kDecodeComputeMajor) {
      GTEST_SKIP() << "needs compute capability " << kDecodeComputeMajor << ".0";
    }
    SetDecodeWay(DecodeWay::kAtOnce);
  }
  void TearDown() override {
    SetDecodeWay(DecodeWay::kBest);
    DeviceTest::TearDown();
  }

  DeviceProperties properties_;
};

TEST_P(DecodeTest, HasTheBitsOfKernelsThatTakeOneLayerEach) {
  SmallDecode decode(GetParam().model, GetParam().tiles);
  const SmallDecode::Result expected = decode.LayerByLayer(ChunkSplit::kTogether, 16, stream_);
  EXPECT_TRUE(decode.LayerByLayer(ChunkSplit::kApart, 16, stream_) == expected);
  for (uint32_t bits : expected.values) ASSERT_TRUE(std::isfinite(std::bit_cast<float>(bits)));
  const int shared_bytes = properties_.shared_bytes_per_block;
  const int most_rows =
      ChooseDecodeRows(decode.Params(), /*groups=*/1 << 20, /*largest_context=*/1, /*steps=*/1,
                       /*multiprocessors=*/1, shared_bytes);
  ASSERT_GE(most_rows, kGroupRows);
  for (int rows = kGroupRows; rows <= most_rows; rows *= 2) {
    const SmallDecode::Result at_once = decode.AtOnce(rows, shared_bytes, stream_);
    EXPECT_EQ(at_once.values, expected.values) << rows << " rows";
    EXPECT_EQ(at_once.densities, expected.densities) << rows << " rows";
    EXPECT_TRUE(at_once.buffers == expected.buffers) << rows << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, DecodeTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace chorale::kernels::cuda
