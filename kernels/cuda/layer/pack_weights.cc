#include "kernels/cuda/layer/pack_weights.h"

#include <algorithm>
#include <initializer_list>

#include "kernels/cuda/layout/weight_tiles.h"

namespace chorale::kernels::cuda {
namespace {

// Appends the weight tile of 128 outputs by 128 inputs at [output_tile, input_tile].
void AppendWeightTile(const Matrix& matrix, int64_t output_tile, int64_t input_tile,
                      std::vector<uint16_t>& weight_tiles) {
  const int64_t first_output = output_tile * kWeightTileOutputs;
  const int64_t first_input = input_tile * kWeightTileInputs;
  const int64_t outputs = std::min<int64_t>(kWeightTileOutputs, matrix.out - first_output);
  const int64_t inputs = std::min<int64_t>(kWeightTileInputs, matrix.in - first_input);
  weight_tiles.resize(weight_tiles.size() + kWeightTileSize, 0);
  uint16_t* weight_tile = weight_tiles.data() + weight_tiles.size() - kWeightTileSize;
  for (int64_t o = 0; o < outputs; ++o) {
    const float* row = matrix.values.data() + (first_output + o) * matrix.in + first_input;
    for (int64_t i = 0; i < inputs; ++i) {
      weight_tile[WeightTileAt(static_cast<int>(o), static_cast<int>(i))] = ToBf16(row[i]);
    }
  }
}

// Appends all weight tiles of a matrix, [output tile][input tile].
void AppendMatrix(const Matrix& matrix, std::vector<uint16_t>& weight_tiles) {
  for (int64_t o = 0; o < WeightTiles(matrix.out); ++o) {
    for (int64_t i = 0; i < WeightTiles(matrix.in); ++i) {
      AppendWeightTile(matrix, o, i, weight_tiles);
    }
  }
}

std::vector<float> Concatenated(std::initializer_list<const std::vector<float>*> vectors) {
  std::vector<float> all;
  for (const std::vector<float>* vector : vectors) {
    all.insert(all.end(), vector->begin(), vector->end());
  }
  return all;
}

// The elements of each weight tile in another order.
std::vector<uint16_t> Reordered(const std::vector<uint16_t>& weight_tiles, int (*at)(int, int)) {
  std::vector<uint16_t> reordered(weight_tiles.size());
  for (size_t weight_tile = 0; weight_tile < weight_tiles.size(); weight_tile += kWeightTileSize) {
    for (int o = 0; o < kWeightTileOutputs; ++o) {
      for (int i = 0; i < kWeightTileInputs; ++i) {
        reordered[weight_tile + at(o, i)] = weight_tiles[weight_tile + WeightTileAt(o, i)];
      }
    }
  }
  return reordered;
}

}  // namespace

std::vector<uint16_t> PackPostAttentionTiles(const Matrix& wo, const Matrix& w1, const Matrix& w2) {
  std::vector<uint16_t> weight_tiles;
  AppendMatrix(wo, weight_tiles);
  AppendMatrix(w1, weight_tiles);
  AppendMatrix(w2, weight_tiles);
  return weight_tiles;
}

std::vector<uint16_t> PackPreAttentionTiles(const Matrix& feature, const Matrix& query_key_value) {
  std::vector<uint16_t> weight_tiles;
  AppendMatrix(feature, weight_tiles);
  AppendMatrix(query_key_value, weight_tiles);
  return weight_tiles;
}

std::vector<uint16_t> PackWgmmaTiles(const std::vector<uint16_t>& weight_tiles) {
  return Reordered(weight_tiles, &WgmmaTileAt);
}

std::vector<uint16_t> PackWgmmaColumnTiles(const std::vector<uint16_t>& weight_tiles) {
  return Reordered(weight_tiles, &WgmmaColumnTileAt);
}

std::vector<float> PackPostAttentionVectors(const std::vector<float>& gamma2,
                                            const std::vector<float>& beta2,
                                            const std::vector<float>& gamma3,
                                            const std::vector<float>& beta3,
                                            const std::vector<float>& b2,
                                            const std::vector<float>& b1) {
  std::vector<float> all = Concatenated({&gamma2, &beta2, &gamma3, &beta3, &b2, &b1});
  all.resize(
      all.size() - b1.size() + kWeightTileOutputs * WeightTiles(static_cast<int64_t>(b1.size())),
      0);
  return all;
}

std::vector<float> PackPreAttentionVectors(const std::vector<float>& gamma1,
                                           const std::vector<float>& beta1) {
  return Concatenated({&gamma1, &beta1});
}

}  // namespace chorale::kernels::cuda
