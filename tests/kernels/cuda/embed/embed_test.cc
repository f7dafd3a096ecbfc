#include "kernels/cuda/embed/embed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cuda/layout/tile.h"
#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/cuda/tile_rows.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

class EmbedTest : public DeviceTest {};

TEST_F(EmbedTest, PathsGetTheirTargetsAndTokens) {
  constexpr int kWidth = 40;
  constexpr int kQueryRows = 9;
  constexpr int kPositions = 6;  // the order leaves query rows out
  constexpr int kPaths = 11;
  constexpr int kBufferPositions = 3;  // K: the token at position 4 wraps to 1
  const std::vector<float> encodings = RandomTensor(kQueryRows * kWidth, 1);
  const std::vector<float> offsets = RandomTensor((2 + kBufferPositions) * kWidth, 2);
  const std::vector<float> y_weight = RandomTensor(kWidth, 3);
  const std::vector<float> values = RandomTensor(kPositions * kPaths, 4);
  std::vector<int32_t> order;
  for (int i = 0; i < kPaths * kPositions; ++i) order.push_back(i * 5 / 3 % kQueryRows);
  const DeviceArray<float> d_encodings(encodings), d_offsets(offsets), d_y(y_weight), d_v(values);
  const DeviceArray<int32_t> d_order(order);
  const PathTile path = {.encodings = d_encodings.data(),
                         .order = d_order.data(),
                         .values = d_v.data(),
                         .paths = kPaths,
                         .stride = kPaths,
                         .positions = kPositions,
                         .position = 5,
                         .token_position = 4};
  PathTile given_order = path;
  given_order.order = nullptr;
  PathTile first = path;
  first.position = 0;
  first.token_position = -1;
  const DeviceArray<PathTile> paths(std::vector<PathTile>{path, given_order, first, path});
  const DeviceArray<Tile> tiles(
      std::vector<Tile>{{.groups = 2}, {.groups = 2}, {.groups = 2}, {.groups = 0}});
  const DeviceArray<float> x(4 * 64 * kWidth);
  const EmbedPathsParams params = {.tiles = tiles.data(),
                                   .paths = paths.data(),
                                   .offsets = d_offsets.data(),
                                   .y_weight = d_y.data(),
                                   .x = x.data(),
                                   .tile_count = 4,
                                   .width = kWidth,
                                   .buffer_positions = kBufferPositions};
  ASSERT_TRUE(ValidateEmbedPaths(params).ok());
  ExpectSuccess(LaunchEmbedPaths(params, stream_), "embedding");
  std::vector<float> expected(x.size(), std::numeric_limits<float>::quiet_NaN());
  for (int tile = 0; tile < 3; ++tile) {
    for (int p = 0; p < 16; ++p) {
      for (const bool token : {false, true}) {
        float* row = expected.data() + (tile * 64 + TargetRow(p) + (token ? 8 : 0)) * kWidth;
        const int position = tile == 2 ? (token ? -1 : 0) : (token ? 4 : 5);
        for (int c = 0; c < kWidth; ++c) {
          row[c] = 0;
          if (p >= kPaths || position < 0) continue;
          const int query_row = tile == 1 ? position : order[p * kPositions + position];
          row[c] = encodings[query_row * kWidth + c] + offsets[(token ? 2 + 1 : 0) * kWidth + c];
          if (token) row[c] += values[position * kPaths + p] * y_weight[c];
        }
      }
    }
  }
  EXPECT_THAT(x.ToHost(stream_), TensorNear(expected, Tolerance{1e-6, 1e-6}));
}

TEST_F(EmbedTest, RowsFillWholeTiles) {
  constexpr int kWidth = 24;
  constexpr int kRows = 70;
  const std::vector<float> encodings = RandomTensor(kRows * kWidth, 1);
  const std::vector<float> offset = RandomTensor(kWidth, 2);
  const std::vector<float> y_weight = RandomTensor(kWidth, 3);
  const std::vector<float> y = RandomTensor(kRows, 4);
  const DeviceArray<float> d_encodings(encodings), d_offset(offset), d_weight(y_weight), d_y(y);
  for (bool with_y : {false, true}) {
    const DeviceArray<float> x(2 * 64 * kWidth);
    const EmbedRowsParams params = {.encodings = d_encodings.data(),
                                    .offset = d_offset.data(),
                                    .y = with_y ? d_y.data() : nullptr,
                                    .y_weight = d_weight.data(),
                                    .x = x.data(),
                                    .rows = kRows,
                                    .width = kWidth};
    ASSERT_TRUE(ValidateEmbedRows(params).ok());
    ExpectSuccess(LaunchEmbedRows(params, stream_), "embedding");
    std::vector<float> expected(x.size(), 0.0f);
    for (int i = 0; i < kRows * kWidth; ++i) {
      expected[i] = encodings[i] + offset[i % kWidth];
      if (with_y) expected[i] += y[i / kWidth] * y_weight[i % kWidth];
    }
    EXPECT_THAT(x.ToHost(stream_), TensorNear(expected, Tolerance{1e-6, 1e-6}));
  }
}

}  // namespace
}  // namespace chorale::kernels::cuda
