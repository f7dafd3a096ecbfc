// All layers in one kernel: the bits of the kernels of single layers, which have tests of their
// own.
#include "kernels/cuda/layer/layers.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/tile.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/cuda/small_decode.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kSharedBytes = 227 * 1024;

SmallModel ModelOf(int layers, int query_rows, float deviation = 1, int hidden = 256) {
  return {.layers = layers,
          .query_rows = query_rows,
          .deviation = deviation,
          .shape = {.width = 128,
                    .heads = 2,
                    .kv_heads = 2,
                    .head_dim = 64,
                    .hidden = hidden,
                    .components = 3}};
}

class LayersTest : public DeviceTest {
 protected:
  // How often a launch is repeated.
  static int Times() { return LinkedDevice() == DeviceKind::kEmulator ? 1 : 50; }

  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    if (properties_.compute_major != kWgmmaComputeMajor) GTEST_SKIP() << "there is no wgmma";
  }

  void ExpectSameBits(const SmallModel& model, const std::vector<SmallTile>& tiles) {
    ASSERT_TRUE(HasLayersKernel(model.shape, model.layers, properties_.shared_bytes_per_block));
    SmallDecode decode(model, tiles, properties_);
    const SmallDecode::Result expected = decode.Run(KvSplit::kSingle, 16, stream_);
    for (int i = 0; i < Times(); ++i) {
      ASSERT_TRUE(decode.RunAllLayers(stream_) == expected) << "time " << i;
    }
  }
};

// The second tile has idle warps from the start, and is idle before the first one is done. The
// third one draws after it has scored.
TEST_F(LayersTest, SameBitsAsLayerByLayer) {
  ExpectSameBits(
      ModelOf(3, 4),
      {{},
       {.context_rows = 300, .paths = 9, .steps = 2, .in_order = false, .first_drawn = 2},
       {.paths = 3, .first_drawn = 1}});
}

// One key, one key block, an odd number of key blocks, and several splits.
TEST_F(LayersTest, ContextsOfEverySize) {
  ExpectSameBits(ModelOf(2, 2), {{.context_rows = 1, .paths = 3},
                                 {.context_rows = 64, .paths = 8},
                                 {.context_rows = 190, .paths = 20},
                                 {.context_rows = 600, .paths = 32},
                                 {.context_rows = 100, .context_capacity = 300, .paths = 9}});
}

// Buffers of one chunk in each of three splits, and of more.
TEST_F(LayersTest, LongBuffers) {
  ExpectSameBits(ModelOf(2, 18), {{.context_rows = 70, .paths = 12, .steps = 18}});
  ExpectSameBits(ModelOf(1, 42), {{.context_rows = 1, .paths = 12, .steps = 42}});
}

// Keys and values of a path that are not finite change no other path.
TEST_F(LayersTest, InfiniteValueStaysInItsPath) {
  constexpr int kQueryRows = 4;
  constexpr int kPaths = 10;
  constexpr int kPath = 5;
  SmallDecode decode(ModelOf(2, kQueryRows),
                     {{.paths = kPaths, .steps = kQueryRows, .first_drawn = kQueryRows}},
                     properties_);
  const SmallDecode::Result expected = decode.RunAllLayers(stream_);
  decode.initial_values()[kPaths + kPath] = std::numeric_limits<float>::infinity();
  const SmallDecode::Result actual = decode.RunAllLayers(stream_);
  for (int i = 0; i < kQueryRows * kPaths; ++i) {
    if (i % kPaths != kPath || i / kPaths == 0) {
      EXPECT_EQ(actual.densities[i], expected.densities[i]) << i;
    } else if (i / kPaths > 1) {
      EXPECT_FALSE(std::isfinite(std::bit_cast<double>(actual.densities[i]))) << i;
    }
  }
}

// Most rows need the shifted sweep, for which keys come a second time.
TEST_F(LayersTest, ScoresFarFromZero) {
  ExpectSameBits(ModelOf(2, 3, /*deviation=*/20),
                 {{.context_rows = 700, .paths = 11}, {.context_rows = 130, .paths = 25}});
}

// Keys come a second time for one head alone.
TEST_F(LayersTest, ScoresOfOneHeadFarFromZero) {
  for (const auto& [deviation, first_head] : {std::pair{1.0f, 20.0f}, std::pair{20.0f, 0.05f}}) {
    SmallModel model = ModelOf(2, 3, deviation);
    model.first_head = first_head;
    ExpectSameBits(model, {{.context_rows = 400, .paths = 9, .steps = 3}});
  }
}

// In contexts of every size, in both sweeps, and beside a tile without weights.
TEST_F(LayersTest, Weights) {
  for (float deviation : {1.0f, 20.0f}) {
    SCOPED_TRACE(deviation);
    ExpectSameBits(ModelOf(2, 2, deviation),
                   {{.context_rows = 1, .paths = 3, .largest_log_weight = 4},
                    {.context_rows = 64, .paths = 8, .largest_log_weight = 4},
                    {.context_rows = 190, .paths = 20, .largest_log_weight = 20},
                    {.context_rows = 150, .paths = 5},
                    {.context_rows = 600, .paths = 9, .largest_log_weight = 20}});
  }
}

TEST_F(LayersTest, WeightsOfOneHaveTheBitsOfNoWeights) {
  for (float deviation : {1.0f, 20.0f}) {
    SCOPED_TRACE(deviation);
    const SmallModel model = ModelOf(2, 2, deviation);
    SmallTile tile = {.context_rows = 300, .paths = 9, .first_drawn = 2};
    const SmallDecode::Result expected =
        SmallDecode(model, {tile}, properties_).RunAllLayers(stream_);
    tile.largest_log_weight = 0;
    EXPECT_TRUE(SmallDecode(model, {tile}, properties_).RunAllLayers(stream_) == expected);
  }
}

TEST_F(LayersTest, OneLayerAndANarrowMlp) {
  ExpectSameBits(ModelOf(1, 3, /*deviation=*/1, /*hidden=*/160), {{.paths = 17}});
}

// ---- Whole paths ---------------------------------------------------------------------------

class WholePathsTest : public LayersTest {
 protected:
  static double DensityOf(const SmallDecode::Result& result, int64_t at) {
    return std::bit_cast<double>(result.densities[at]);
  }
};

// The sums have another order. The keys of the first context have weights.
TEST_F(WholePathsTest, DensitiesAsStepByStep) {
  for (const auto& [query_rows, path_positions] :
       {std::pair{5, 8}, std::pair{8, 8}, std::pair{11, 16}, std::pair{32, 32}}) {
    SCOPED_TRACE(testing::Message() << query_rows << " positions");
    const SmallModel model = ModelOf(2, query_rows);
    const std::vector<SmallTile> tiles = {{.context_rows = 150,
                                           .paths = 5,
                                           .steps = query_rows,
                                           .first_drawn = query_rows,
                                           .largest_log_weight = 4},
                                          {.context_rows = 1,
                                           .paths = 2,
                                           .steps = query_rows,
                                           .in_order = false,
                                           .first_drawn = query_rows}};
    SmallDecode decode(model, tiles, properties_);
    const SmallDecode::Result expected = decode.RunAllLayers(stream_);
    const SmallDecode::Result actual = decode.RunWholePaths(path_positions, stream_);
    for (int tile = 0; tile < 2; ++tile) {
      for (int i = 0; i < query_rows * tiles[tile].paths; ++i) {
        const int at = tile * query_rows * kTilePaths + i;
        ASSERT_NEAR(DensityOf(actual, at), DensityOf(expected, at), 0.03) << tile << " " << i;
      }
    }
  }
}

// A path has the same bits in each place of a tile, whatever the paths beside it; most rows need
// the shifted sweep.
TEST_F(WholePathsTest, SameBitsInEveryPlace) {
  constexpr int kQueryRows = 7;
  constexpr int kPaths = 9;
  SmallDecode decode(
      ModelOf(2, kQueryRows, /*deviation=*/20),
      {{.context_rows = 700, .paths = kPaths, .steps = kQueryRows, .first_drawn = kQueryRows}},
      properties_);
  const SmallDecode::Result expected = decode.RunWholePaths(8, stream_);
  for (const auto& [first_path, path_positions] :
       {std::pair{0, 8}, std::pair{1, 8}, std::pair{2, 8}, std::pair{3, 16}, std::pair{0, 32}}) {
    for (int time = 0; time < Times(); ++time) {
      const SmallDecode::Result actual = decode.RunWholePaths(path_positions, stream_, first_path);
      for (int i = 0; i < kQueryRows * kPaths; ++i) {
        if (i % kPaths < first_path) continue;
        ASSERT_EQ(actual.densities[i], expected.densities[i])
            << i << ", from path " << first_path << ", " << path_positions << " positions";
      }
    }
  }
}

// Nor does a position depend on a later value, or another path's, that is infinite.
TEST_F(WholePathsTest, InfiniteValueReachesLaterPositionsAlone) {
  constexpr int kQueryRows = 12;
  constexpr int kPaths = 4;
  constexpr int kPath = 2;
  constexpr int kPosition = 5;
  SmallDecode decode(ModelOf(2, kQueryRows),
                     {{.paths = kPaths, .steps = kQueryRows, .first_drawn = kQueryRows}},
                     properties_);
  const SmallDecode::Result expected = decode.RunWholePaths(16, stream_);
  decode.initial_values()[kPosition * kPaths + kPath] = std::numeric_limits<float>::infinity();
  const SmallDecode::Result actual = decode.RunWholePaths(16, stream_);
  for (int i = 0; i < kQueryRows * kPaths; ++i) {
    if (i % kPaths != kPath || i / kPaths < kPosition) {
      EXPECT_EQ(actual.densities[i], expected.densities[i]) << i;
    } else if (i / kPaths > kPosition) {
      EXPECT_FALSE(std::isfinite(DensityOf(actual, i))) << i;
    }
  }
}

TEST(HasLayersKernelTest, OneShape) {
  const ModelShape shape = ModelOf(1, 1).shape;
  EXPECT_TRUE(HasLayersKernel(shape, kMostFusedLayers, kSharedBytes));
  EXPECT_FALSE(HasLayersKernel(shape, kMostFusedLayers + 1, kSharedBytes));
  EXPECT_FALSE(HasLayersKernel(shape, 12, 160 * 1024));
  const auto has = [&](auto change) {
    ModelShape other = shape;
    change(other);
    return HasLayersKernel(other, 12, kSharedBytes);
  };
  EXPECT_FALSE(has([](ModelShape& s) { s.width = 120; }));
  EXPECT_FALSE(has([](ModelShape& s) { s.heads = s.kv_heads = 4, s.head_dim = 32; }));
  EXPECT_FALSE(has([](ModelShape& s) { s.kv_heads = 1; }));
  EXPECT_FALSE(has([](ModelShape& s) { s.hidden = 128; }));
  EXPECT_FALSE(has([](ModelShape& s) { s.hidden = 264; }));
}

}  // namespace
}  // namespace chorale::kernels::cuda
