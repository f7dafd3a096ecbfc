// A random layer and tiles on the device, and their result by the definition in float64. The
// reference rounds the same numbers to bf16 as the kernels: weights, and what they are multiplied
// with.
#ifndef CHORALE_TESTS_KERNELS_CUDA_LAYER_LAYER_PROBLEM_H_
#define CHORALE_TESTS_KERNELS_CUDA_LAYER_LAYER_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/layout/model_shape.h"
#include "tests/kernels/cuda/device_test.h"

namespace chorale::kernels::cuda {

using Vector = std::vector<double>;

// The layers of a small model.
inline constexpr ModelShape kSmallLayer = {
    .width = 128, .heads = 4, .kv_heads = 4, .head_dim = 32, .hidden = 256};

// A layer's weights in host memory; matrices hold bf16 numbers.
struct Layer {
  explicit Layer(const ModelShape& s);

  Matrix feature, projection, wo, w1, w2;
  std::vector<float> b1, b2;
  std::vector<std::vector<float>> gamma, beta;
};

struct RowResult {
  Vector x;
  Vector qkv;  // [q | K | V]
};

// Four tiles: one that encodes 50 rows of a context, paths in two groups, query rows to predict,
// and one that is idle. Contexts have different numbers of splits, some without a key, and one has
// no rows.
class LayerProblem {
 public:
  static constexpr int kTiles = 4;
  static constexpr int kRows = kTiles * 64;
  static constexpr int kLayer = 1;
  static constexpr int kEncodedRows = 114;  // of which the tile has the last 50
  static constexpr int kLargestContext = 1250;
  static constexpr int kContextRows[kTiles] = {kEncodedRows, kLargestContext, 0, 10};
  static constexpr int kCapacity = 5;
  static constexpr int kPosition = 3;

  // `mean`: of x in the first 64 columns of every 128; in the others, it is less by `apart`.
  explicit LayerProblem(const ModelShape& shape, float mean = 0, float apart = 0);

  // The rows of the tile that encodes a context, rows 64 to 127 of it.
  struct Encoding {
    int first = 0;  // before which rows have keys already
    int rows = kEncodedRows - 64;
    int capacity = kEncodedRows;
  };
  // Replaces the context, to which nothing was stored: it has the bits of random numbers.
  void SetEncoding(const Encoding& encoding);
  std::vector<uint16_t> Context(Stream stream) const { return context_.ToHost(stream); }

  // Whether a row, of those of all tiles, is in use.
  bool InUse(int row) const;

  enum class Form { kMma, kWgmma, kTile };

  struct Result {
    std::vector<float> x;     // [kRows, D]
    std::vector<uint16_t> q;  // [kRows, H Dh]
    std::vector<uint16_t> context;
    std::vector<uint16_t> buffer;

    bool operator==(const Result&) const = default;
  };

  enum class Attention { kPartials, kAttended };

  // Launches the form of the kernel and returns everything that it may write. With kAttended, it
  // is given the combined attention, rounded to bf16, instead of partials.
  Result Run(LayerPart part, int block_rows, Stream stream, Form form = Form::kMma,
             Attention attention = Attention::kPartials);

  // The float64 reference of a row.
  RowResult Expected(LayerPart part, int row) const;

  const ModelShape& shape() const { return shape_; }
  const std::vector<float>& x() const { return x_; }

 private:
  void UploadTiles(const Encoding& encoding);
  // Random partials of every tile's splits, and the attention that they combine to.
  void MakeStates();

  const ModelShape shape_;
  const Layer layer_;
  const std::vector<float> x_;
  Vector attention_;  // [kRows, H Dh]

  DeviceArray<Tile> tiles_;
  DeviceArray<float> partial_o_, partial_ml_;
  DeviceArray<uint16_t> attended_, context_, buffer_;
  DeviceArray<uint16_t> post_attention_tiles_, pre_attention_tiles_;
  DeviceArray<uint16_t> post_attention_wgmma_tiles_, pre_attention_wgmma_tiles_;
  DeviceArray<uint16_t> post_attention_column_tiles_, pre_attention_column_tiles_;
  DeviceArray<float> post_vectors_, pre_vectors_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_LAYER_LAYER_PROBLEM_H_
