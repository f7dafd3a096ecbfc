// The stages of the model on tiles of rows: each is one or two launches on the device's stream.
// What a phase (encode, decode, teacher forcing, prediction) does reads as a list of these.
//
// A row's result never depends on which other rows are launched with it. Errors are kept by the
// device (Device::Check).
#ifndef CHORALE_ENGINE_BACKEND_CUDA_FORWARD_H_
#define CHORALE_ENGINE_BACKEND_CUDA_FORWARD_H_

#include <cstdint>
#include <optional>

#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/cuda/tile_set.h"
#include "engine/backend/cuda/wide_forward.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/layer/layer.h"

namespace chorale::cuda {

// What lies between two kernels, like the partial results of split attention, is in the part of the
// launch workspace that is handed to it. Immutable.
class Forward {
 public:
  // REQUIRES: scratch.bytes >= ScratchBytes(model.shape()).
  Forward(const DeviceModel& model, const LaunchWorkspace& scratch);

  // Bytes of it that one tile needs.
  static int64_t ScratchBytes(const KernelShape& shape);
  // Partial results of each tile of a launch: 1, or one for each split of the largest context.
  int64_t SplitsOfTile(int64_t tiles, int64_t largest_context) const;

  // x of targets and buffer tokens; of rows [first_row, first_row + rows) of `encodings`.
  void EmbedPaths(const TileSet& set) const;
  void EmbedRows(const TileSet& set, const float* encodings, int64_t rows, const float* offset,
                 const float* y) const;

  // x = LN1(x + P x); Q, and K and V into the context or the buffers. Once, for layer 0: later
  // layers have it done by AttentionAndMlp of the layer before.
  void PreAttention(int64_t layer, const TileSet& set) const;
  // Attention, output projection and MLP of `layer`. The kernel of the MLP goes on with
  // PreAttention(layer + 1), unless `layer` is the last.
  void AttentionAndMlp(int64_t layer, const TileSet& set) const;

  // Of the targets of paths: values and log-densities. Of other rows: mixtures [count, 64, 3, M].
  void Head(const TileSet& set, float* mixtures) const;

 private:
  struct States {
    kernels::cuda::KvSplit split = kernels::cuda::KvSplit::kSingle;
    int32_t num_splits = 1;
    float* o = nullptr;
    float* state = nullptr;
  };

  States Attend(int64_t layer, const TileSet& set) const;
  // `layer`: as in PreAttention and AttentionAndMlp.
  void LaunchLayer(kernels::cuda::LayerPart part, int64_t layer, const TileSet& set,
                   const States& states) const;

  const DeviceModel& model_;
  Device& device_;
  const std::optional<WideForward> wide_;  // where the model is of the wide form
  char* const states_;
  const int64_t max_partial_tiles_;  // for whose partial results there is room, at least 1
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_FORWARD_H_
