// The interface of the two forms in which the layers and the head of a model run on the device.
// FusedForm and UnfusedForm implement it; KernelShape selects the form of a model.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_LAYER_FORM_H_
#define CHORALE_ENGINE_BACKEND_CUDA_LAYER_FORM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/tile_set.h"
#include "kernels/cuda/embed/embed.h"

namespace chorale::cuda {

// One form of one model, with its weights. Immutable once Prepare has returned OK.
//
// Launches go to the stream of the device, which keeps their errors. A launch keeps intermediate
// results in `scratch`, which has at least ScratchBytes() bytes. With more memory, a launch
// processes more tiles at a time. The results of a row depend neither on this number nor on the
// other rows of a launch.
class LayerForm {
 public:
  virtual ~LayerForm() = default;

  // See BackendModel::form and BackendModel::kv_format.
  virtual std::string name() const = 0;
  virtual std::string kv_format() const = 0;

  // Prepares the form. Called once, when the weights are on the device, before any launch.
  virtual absl::Status Prepare() = 0;

  // Returns the maximum number of tiles that all kernels of a layer can process in one launch.
  virtual int64_t most_tiles() const = 0;
  // Returns the bytes of scratch memory for one tile.
  virtual int64_t ScratchBytes() const = 0;
  // Returns the number of partial results of each tile in a launch of AttentionAndMlp: 1, or the
  // number of splits of the largest context.
  virtual int64_t SplitsOfTile(int64_t tiles, int64_t largest_context,
                               const LaunchWorkspace& scratch) const = 0;

  // Computes x = LN1(x + P x) and Q of `layer`, and stores K and V in the context or the buffers.
  // Called for layer 0, and with TileSet::one_layer for all layers.
  virtual void PreAttention(int64_t layer, const TileSet& set,
                            const LaunchWorkspace& scratch) const = 0;
  // Computes attention, output projection and MLP of `layer`, and then PreAttention(layer + 1),
  // unless `layer` is the last or TileSet::one_layer is true.
  virtual void AttentionAndMlp(int64_t layer, const TileSet& set,
                               const LaunchWorkspace& scratch) const = 0;
  // Computes output projection and MLP of `layer` from attention, [count, 64, H, Dh] bf16.
  virtual void PostAttention(int64_t layer, const TileSet& set, const uint16_t* attended,
                             const LaunchWorkspace& scratch) const = 0;
  // Embeds `paths`, the tiles of a set, and computes all layers in one launch, if there is a kernel
  // that is faster, and returns whether it did. The bits are those of LaunchEmbedPaths,
  // PreAttention(0), and AttentionAndMlp of each layer. Tiles of whole paths are computed by this
  // method alone. REQUIRES: for those, KernelShape::has_layers_kernel.
  virtual bool AllLayers(const kernels::cuda::EmbedPathsParams& paths,
                         const TileSet& set) const = 0;
  // Computes values and log-densities for the query rows of paths, and mixtures [count, 64, 3, M]
  // for other rows.
  virtual void Head(const TileSet& set, float* mixtures, const LaunchWorkspace& scratch) const = 0;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_LAYER_FORM_H_
