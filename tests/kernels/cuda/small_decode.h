// A small model with random weights, and a decode of tiles of paths with it.
#ifndef CHORALE_TESTS_KERNELS_CUDA_SMALL_DECODE_H_
#define CHORALE_TESTS_KERNELS_CUDA_SMALL_DECODE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/embed/embed.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"
#include "tests/kernels/cuda/device_test.h"

namespace chorale::kernels::cuda {

struct SmallTile {
  int context_rows = 150;
  int context_capacity = 0;  // as in TileShape
  int paths = 32;
  int steps = 4;         // at most the query rows
  bool in_order = true;  // false: each path has an order of its own
  int first_drawn = 0;   // values at earlier positions are scored
  // As TileShape::largest_log_weight.
  float largest_log_weight = -1;

  int Capacity() const { return std::max(context_rows, context_capacity); }
};

struct SmallModel {
  int layers = 3;
  int query_rows = 4;
  float deviation = 1;   // of keys and values of contexts
  float first_head = 1;  // times that in head 0
  ModelShape shape = {
      .width = 128, .heads = 4, .kv_heads = 4, .head_dim = 32, .hidden = 256, .components = 3};
};

class SmallDecode {
 public:
  SmallDecode(const SmallModel& model, const std::vector<SmallTile>& tiles,
              const DeviceProperties& device);

  // Everything that a decode writes; the rest keeps its initial value, so that results can be
  // compared bit by bit.
  struct Result {
    std::vector<uint32_t> values;     // bits, [tiles, query rows, paths]
    std::vector<uint64_t> densities;  // bits, likewise
    std::vector<uint16_t> buffers;
    bool operator==(const Result&) const = default;
  };

  Result Run(KvSplit split, int block_rows, Stream stream);
  // Computes all layers in one launch. REQUIRES: HasLayersKernel.
  Result RunAllLayers(Stream stream);
  // Scores the values of all positions at once, in tiles of whole paths (Tile::path_positions). Of
  // each SmallTile, paths from first_path on. REQUIRES: HasLayersKernel; no tile draws.
  Result RunWholePaths(int path_positions, Stream stream, int first_path = 0);

  // The values with which later runs begin, [tiles, query rows, 32]; random at first. In the part
  // of a tile, a row has as many elements as the tile has paths.
  std::vector<float>& initial_values() { return initial_values_; }

 private:
  void Upload();
  void UploadWholePaths(int path_positions, int first_path);
  Tile TileOf(int index) const;
  PathTile PathTileOf(int index) const;
  Result Download(Stream stream) const;
  EmbedPathsParams Paths();
  // layers() launches the embedding and the layers of a step.
  void Step(const std::function<void()>& layers, Stream stream);
  void LayerByLayer(KvSplit split, int block_rows, Stream stream);
  void AllLayers(bool whole_paths, Stream stream);
  void Attend(int layer, KvSplit split, Stream stream);
  void Rows(LayerPart stages, int layer, KvSplit split, int block_rows, Stream stream);
  int64_t BufferSize() const;
  int64_t ValuesSize() const { return int64_t{model_.query_rows} * kTilePaths; }  // of a tile
  int tile_count() const { return static_cast<int>(shapes_.size()); }
  bool weighted() const;  // whether the context of a tile has weights
  int launch_tiles() const { return static_cast<int>(tiles_.size()); }

  const SmallModel model_;
  const std::vector<SmallTile> shapes_;
  const int shared_bytes_;  // of a block
  bool use_wgmma_;
  int num_splits_ = 0;
  std::vector<DeviceArray<uint16_t>> contexts_;      // [tiles]
  std::vector<DeviceArray<float>> log_weights_;      // [tiles], of their contexts
  std::vector<DeviceArray<int32_t>> orders_;         // [tiles]
  DeviceArray<uint64_t> path_numbers_;               // [tiles, 32]
  std::vector<DeviceArray<uint16_t>> weight_tiles_;  // [layers] pre-attention, post-attention
  std::vector<DeviceArray<uint16_t>> wgmma_tiles_;   // the same in wgmma_tiles
  std::vector<DeviceArray<uint16_t>> wgmma_column_tiles_;
  std::vector<LayerWeights> layers_;
  DeviceArray<float> vectors_;
  DeviceArray<float> encodings_;
  DeviceArray<float> offsets_;
  DeviceArray<uint16_t> head_maps_;
  HeadWeights head_;
  DeviceArray<uint16_t> q_;
  DeviceArray<float> partial_o_;
  DeviceArray<float> partial_ml_;
  std::vector<float> initial_values_;
  // Of the last run.
  DeviceArray<float> x_;
  DeviceArray<float> values_;
  DeviceArray<double> densities_;
  DeviceArray<uint16_t> buffer_;
  DeviceArray<Tile> tiles_;
  DeviceArray<PathTile> paths_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_SMALL_DECODE_H_
