// The stages of the model on tiles of rows. Each stage is one or a few launches on the stream of
// the device. Encoding, decoding, densities and predictions are sequences of these stages.
//
// The result of a row does not depend on the other rows of a launch. The device keeps errors
// (Device::Check).
#ifndef CHORALE_ENGINE_BACKEND_CUDA_FORWARD_H_
#define CHORALE_ENGINE_BACKEND_CUDA_FORWARD_H_

#include <cstdint>

#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/layer_form.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/cuda/tile_set.h"
#include "kernels/cuda/embed/embed.h"

namespace chorale::cuda {

// Stages keep the data between two kernels, such as the partial results of split attention, in
// `scratch`, a part of the launch workspace. Immutable.
class Forward {
 public:
  // REQUIRES: scratch.bytes >= model.layer_form().ScratchBytes().
  Forward(const DeviceModel& model, const LaunchWorkspace& scratch)
      : model_(model), form_(model.layer_form()), scratch_(scratch) {}

  // Compute x of query rows and buffer tokens of paths, or of rows [0, rows) of `encodings`.
  void EmbedPaths(const TileSet& set) const {
    scratch_.device.Launch(kernels::cuda::LaunchEmbedPaths, PathsOf(set), "embedding paths");
  }
  void EmbedRows(const TileSet& set, const float* encodings, int64_t rows, const float* offset,
                 const float* y) const;

  // See LayerForm.
  int64_t SplitsOfTile(int64_t tiles, int64_t largest_context) const {
    return form_.SplitsOfTile(tiles, largest_context, scratch_);
  }
  void PreAttention(int64_t layer, const TileSet& set) const {
    form_.PreAttention(layer, set, scratch_);
  }
  void AttentionAndMlp(int64_t layer, const TileSet& set) const {
    form_.AttentionAndMlp(layer, set, scratch_);
  }
  void PostAttention(int64_t layer, const TileSet& set, const uint16_t* attended) const {
    form_.PostAttention(layer, set, attended, scratch_);
  }
  // Embeds paths and computes all layers. Tiles of whole paths have no other form than
  // LayerForm::AllLayers.
  void AllLayers(const TileSet& set) const {
    if (form_.AllLayers(PathsOf(set), set)) return;
    EmbedPaths(set);
    PreAttention(0, set);
    for (int64_t layer = 0; layer < model_.shape().layers; ++layer) AttentionAndMlp(layer, set);
  }
  void Head(const TileSet& set, float* mixtures) const { form_.Head(set, mixtures, scratch_); }

 private:
  kernels::cuda::EmbedPathsParams PathsOf(const TileSet& set) const;

  const DeviceModel& model_;
  const LayerForm& form_;
  const LaunchWorkspace scratch_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_FORWARD_H_
