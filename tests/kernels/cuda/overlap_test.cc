// That kernels may overlap (kernels/cuda/launch.h): several steps of a decode have the same bits,
// whether each kernel waits for the one ahead to end before it begins or not.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/embed.h"
#include "kernels/cuda/head.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/row_layer.h"
#include "kernels/cuda/weights.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/simd_targets.h"

namespace chorale::kernels::cuda {
namespace {

// A small model with random weights, and tiles of paths that share a context. Every layer has the
// same weights.
class Decode {
 public:
  static constexpr int kTiles = 2;
  static constexpr int kPaths = 32;
  static constexpr int kLayers = 3;
  static constexpr int kTargets = 4;
  static constexpr int kContextRows = 150;
  static constexpr int kWidth = 128;
  static constexpr int kHeads = 4;
  static constexpr int kHeadDim = 32;
  static constexpr int kHidden = 256;
  static constexpr int kComponents = 3;
  static constexpr int kRows = kTiles * kTileRows;
  static constexpr int kSlots = kFewestChunks;

  // The drawn values, [tiles, targets, paths].
  std::vector<float> Run(Stream stream) {
    values_ = DeviceArray<float>(kTiles * kTargets * kPaths);
    densities_ = DeviceArray<double>(kTiles * kTargets * kPaths);
    buffer_ = DeviceArray<uint16_t>(kTiles * kLayers * BufferSize());
    std::vector<Tile> tiles;
    std::vector<PathTile> paths;
    for (int i = 0; i < kTiles; ++i) {
      tiles.push_back({.context = context_.data(),
                       .buffer = buffer_.data() + i * kLayers * BufferSize(),
                       .context_rows = kContextRows,
                       .groups = 4,
                       .buffer_paths = kPaths,
                       .buffer_capacity = kTargets});
      paths.push_back({.encodings = encodings_.data(),
                       .values = values_.data() + i * kTargets * kPaths,
                       .emitted_densities = densities_.data() + i * kTargets * kPaths,
                       .seed = 7,
                       .first_path = static_cast<uint64_t>(i) * kPaths,
                       .paths = kPaths,
                       .targets = kTargets,
                       .steps_left = kTargets,
                       .draw = 1});
    }
    tiles_ = DeviceArray<Tile>(tiles);
    paths_ = DeviceArray<PathTile>(paths);
    for (int step = 0; step < kTargets; ++step) Step(stream);
    return values_.ToHost(stream);
  }

 private:
  static int64_t BufferSize() { return BufferLayerSize(kTargets, kPaths, kHeads, kHeadDim); }

  static DeviceArray<uint16_t> RandomBf16(int64_t n, uint32_t seed, float deviation) {
    std::vector<uint16_t> bits;
    for (float x : RandomTensor(n, seed, deviation)) bits.push_back(ToBf16(x));
    return DeviceArray<uint16_t>(bits);
  }

  void Step(Stream stream) {
    ExpectSuccess(LaunchEmbedPaths({.tiles = tiles_.data(),
                                    .paths = paths_.data(),
                                    .offsets = offsets_.data(),
                                    .y_weight = vector_.data(),
                                    .x = x_.data(),
                                    .tile_count = kTiles,
                                    .width = kWidth,
                                    .places = kTargets},
                                   stream),
                  "embedding");
    Rows(RowStages::kLeave, 0, stream);
    for (int layer = 1; layer <= kLayers; ++layer) {
      Attend(layer - 1, stream);
      Rows(layer < kLayers ? RowStages::kFinishAndLeave : RowStages::kFinish, layer, stream);
    }
    const float* vector = vector_.data();
    ExpectSuccess(LaunchHead({.tiles = tiles_.data(),
                              .x = x_.data(),
                              .paths = paths_.data(),
                              .weights = {vector, vector, head_.data(), vector, head_.data(),
                                          vector, vector, vector, vector},
                              .tile_count = kTiles,
                              .width = kWidth,
                              .hidden = kHidden,
                              .components = kComponents,
                              .epsilon = 1e-5f,
                              .std_min = 0.1f,
                              .std_max = 10},
                             stream),
                  "the head");
    ExpectSuccess(LaunchNextPlace({tiles_.data(), paths_.data(), kTiles}, stream), "counting");
  }

  void Attend(int layer, Stream stream) {
    ExpectSuccess(LaunchAttention({.tiles = tiles_.data(),
                                   .q = q_.data(),
                                   .chunk_o = chunk_o_.data(),
                                   .chunk_state = chunk_state_.data(),
                                   .tile_count = kTiles,
                                   .heads = kHeads,
                                   .kv_heads = kHeads,
                                   .head_dim = kHeadDim,
                                   .layer = layer,
                                   .slots = kSlots,
                                   .split = ChunkSplit::kApart},
                                  stream),
                  "attention");
  }

  void Rows(RowStages stages, int layer, Stream stream) {
    const float* vector = vector_.data();
    ExpectSuccess(LaunchRowLayer({.tiles = tiles_.data(),
                                  .x = x_.data(),
                                  .chunk_o = chunk_o_.data(),
                                  .chunk_state = chunk_state_.data(),
                                  .q = q_.data(),
                                  .finish = {finish_.data(), vector},
                                  .leave = {leave_.data(), vector},
                                  .tile_count = kTiles,
                                  .width = kWidth,
                                  .heads = kHeads,
                                  .kv_heads = kHeads,
                                  .head_dim = kHeadDim,
                                  .hidden = kHidden,
                                  .layer = layer,
                                  .split = ChunkSplit::kApart,
                                  .epsilon = 1e-5f,
                                  .stages = stages},
                                 /*block_rows=*/8, stream),
                  "rows");
  }

  const DeviceArray<uint16_t> context_ =
      RandomBf16(kLayers * ContextLayerSize(kContextRows, kHeads, kHeadDim), 1, 1);
  const DeviceArray<uint16_t> finish_ =
      RandomBf16(FinishSlabs(kWidth, kWidth, kHidden) * kSlabSize, 2, 0.09f);
  const DeviceArray<uint16_t> leave_ =
      RandomBf16(LeaveSlabs(kWidth, 3 * kWidth) * kSlabSize, 3, 0.09f);
  const DeviceArray<float> encodings_{RandomTensor(kTargets * kWidth, 4)};
  const DeviceArray<float> offsets_{RandomTensor((2 + kTargets) * kWidth, 5)};
  const DeviceArray<float> vector_{RandomTensor(5 * kWidth + kSlabOutputs * Slabs(kHidden), 6)};
  const DeviceArray<float> head_{RandomTensor(kWidth * kHidden, 8, 0.09f)};
  const DeviceArray<float> x_{kRows * kWidth};
  const DeviceArray<uint16_t> q_{kRows * kHeads * kHeadDim};
  const DeviceArray<float> chunk_o_{kSlots * kRows * kHeads * kHeadDim};
  const DeviceArray<float> chunk_state_{kSlots * kRows * kHeads * 2};
  DeviceArray<float> values_;
  DeviceArray<double> densities_;
  DeviceArray<uint16_t> buffer_;
  DeviceArray<Tile> tiles_;
  DeviceArray<PathTile> paths_;
};

class OverlapTest : public DeviceTest {
 protected:
  void TearDown() override {
    SetOverlap(Overlap::kOn);
    DeviceTest::TearDown();
  }
};

TEST_F(OverlapTest, ChangesNothing) {
  Decode decode;
  SetOverlap(Overlap::kOff);
  const std::vector<float> expected = decode.Run(stream_);
  for (float value : expected) ASSERT_TRUE(std::isfinite(value)) << value;
  SetOverlap(Overlap::kOn);
  // On the emulator kernels never overlap, and once is enough to see that the steps fit together.
  const int times = LinkedDevice() == DeviceKind::kGpu ? 100 : 1;
  for (int i = 0; i < times; ++i) ASSERT_EQ(decode.Run(stream_), expected) << "time " << i;
}

}  // namespace
}  // namespace chorale::kernels::cuda
