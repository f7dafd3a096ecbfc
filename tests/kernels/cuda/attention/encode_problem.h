// A context that is being encoded, for tests of attention.
#ifndef CHORALE_TESTS_KERNELS_CUDA_ATTENTION_ENCODE_PROBLEM_H_
#define CHORALE_TESTS_KERNELS_CUDA_ATTENTION_ENCODE_PROBLEM_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/cuda/layout/tile.h"
#include "tests/kernels/cuda/device_test.h"

namespace chorale::kernels::cuda {

struct EncodeCase {
  int rows = 0;  // of the context
  // The rows that its memory is laid out for; 0: as many. Key blocks behind its rows are NaN.
  int capacity = 0;
  int head_dim = 64;
  int heads = 1;
  int kv_heads = 1;
  float score_deviation = 1;  // roughly
  // Mean score of a key.
  std::function<float(int)> level = [](int /*key*/) { return 0.0f; };
  // The logarithm of the weight of a key, in units of log 2; none: all weights are 1. Keys with
  // kNoKeyLogWeight are padding keys.
  std::function<float(int)> log_weight = nullptr;
  // What multiplies the scores of a row.
  std::function<float(int)> factor = [](int /*row*/) { return 1.0f; };
  // The tiles of the launch.
  int first_tile = 0;
  int tile_count = 0;
  // By how many rows q is rotated within each tile: row 0 has that of this row, and so on.
  int rotation = 0;
};

// Random rows of a context, with q, K and V of one layer.
class EncodeProblem {
 public:
  static constexpr uint16_t kUnwritten = 0xffff;  // see DeviceArray

  EncodeProblem(const EncodeCase& shape, uint32_t seed);

  int Tiles() const { return (shape_.rows + kTileRows - 1) / kTileRows; }

  // Attention of a launch's tiles by the kernel: the bits, [Tiles(), 64, H, Dh]. Those of other
  // tiles are kUnwritten.
  std::vector<uint16_t> Launch(int first, int count, Stream stream, int multiprocessors = 1) const;

  // Attention of the rows of a launch's tiles that are in use, [rows, H, Dh].
  std::vector<float> Reference(int first, int count) const;

  int64_t UsedRows(int first, int count) const {
    return std::min(shape_.rows, (first + count) * kTileRows) - first * kTileRows;
  }

 private:
  int Capacity() const { return std::max(shape_.rows, shape_.capacity); }
  int64_t Rows() const { return int64_t{Tiles()} * kTileRows; }
  int64_t KvWidth() const { return int64_t{shape_.kv_heads} * shape_.head_dim; }
  int64_t Stride() const { return int64_t{shape_.heads} * shape_.head_dim + 2 * KvWidth(); }

  // q, and NaN where a layer's K and V would be.
  void PackRows();
  void PackContext();
  void WeighKeys();

  const EncodeCase shape_;
  // In float32, exactly representable in bf16.
  std::vector<float> q_;  // [Rows(), H, Dh]
  std::vector<float> k_;  // [rows, Hkv, Dh]
  std::vector<float> v_;
  std::vector<float> log_weights_;  // [Hkv, rows]; empty: none
  DeviceArray<uint16_t> rows_;
  DeviceArray<uint16_t> context_;
  DeviceArray<float> device_log_weights_;
  DeviceArray<Tile> tiles_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_ATTENTION_ENCODE_PROBLEM_H_
