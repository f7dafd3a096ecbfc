// The two forms in which the layers and the head of a model run on the device. FusedForm and
// UnfusedForm implement them; KernelShape selects the form of a model.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_LAYER_FORM_H_
#define CHORALE_ENGINE_BACKEND_CUDA_LAYER_FORM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/tile_set.h"

namespace chorale::cuda {

// One form of one model, with the weights that it reads. Immutable once Prepare has returned OK.
//
// Launches go to the stream of the device, which keeps their errors. A launch keeps intermediate
// results in `scratch`, which holds at least ScratchBytes() bytes: with more, it takes more tiles
// at a time. The results of a row depend neither on that nor on the other rows of a launch.
class LayerForm {
 public:
  virtual ~LayerForm() = default;

  // See BackendModel::form and BackendModel::kv_format.
  virtual std::string name() const = 0;
  virtual std::string kv_format() const = 0;

  // Called once, when the weights are on the device, and before any launch.
  virtual absl::Status Prepare() = 0;

  // Tiles that all kernels of a layer can take in one launch.
  virtual int64_t most_tiles() const = 0;
  // Bytes of scratch memory for one tile.
  virtual int64_t ScratchBytes() const = 0;
  // Partial results of each tile in a launch of AttentionAndMlp: 1, or one for each split of the
  // largest context.
  virtual int64_t SplitsOfTile(int64_t tiles, int64_t largest_context,
                               const LaunchWorkspace& scratch) const = 0;

  // x = LN1(x + P x); Q, and K and V into the context or the buffers. For layer 0: AttentionAndMlp
  // does it for each later layer.
  virtual void PreAttention(int64_t layer, const TileSet& set,
                            const LaunchWorkspace& scratch) const = 0;
  // Attention, output projection and MLP of `layer`; then PreAttention(layer + 1), unless `layer`
  // is the last.
  virtual void AttentionAndMlp(int64_t layer, const TileSet& set,
                               const LaunchWorkspace& scratch) const = 0;
  // Of the targets of paths: values and log-densities. Of other rows: mixtures [count, 64, 3, M].
  virtual void Head(const TileSet& set, float* mixtures, const LaunchWorkspace& scratch) const = 0;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_LAYER_FORM_H_
