// The fused form: one kernel computes a layer except its attention (kernels/cuda/layer/layer.h).
#ifndef CHORALE_ENGINE_BACKEND_CUDA_FUSED_FORM_H_
#define CHORALE_ENGINE_BACKEND_CUDA_FUSED_FORM_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/device/weight_blob.h"
#include "engine/backend/cuda/kernel_shape.h"
#include "engine/backend/cuda/layer_form.h"
#include "engine/backend/cuda/tile_set.h"
#include "engine/model/model.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/layer/layer.h"

namespace chorale::cuda {

class FusedForm : public LayerForm {
 public:
  // Adds the weights to `blob`. `least_tiles_of_all_layers`: see BackendOptions. REQUIRES:
  // shape.fused.
  FusedForm(const Model& model, const KernelShape& shape, int64_t least_tiles_of_all_layers,
            Device& device, WeightBlob& blob);

  std::string name() const override { return "fused"; }
  std::string kv_format() const override { return ""; }
  absl::Status Prepare() override { return absl::OkStatus(); }
  int64_t most_tiles() const override { return std::numeric_limits<int64_t>::max(); }
  int64_t ScratchBytes() const override { return PartialBytes(shape_); }
  int64_t SplitsOfTile(int64_t tiles, int64_t largest_context,
                       const LaunchWorkspace& scratch) const override;
  void PreAttention(int64_t layer, const TileSet& set,
                    const LaunchWorkspace& scratch) const override;
  void AttentionAndMlp(int64_t layer, const TileSet& set,
                       const LaunchWorkspace& scratch) const override;
  void PostAttention(int64_t layer, const TileSet& set, const uint16_t* attended,
                     const LaunchWorkspace& scratch) const override;
  bool AllLayers(const kernels::cuda::EmbedPathsParams& paths, const TileSet& set) const override;
  void Head(const TileSet& set, float* mixtures, const LaunchWorkspace& scratch) const override;

 private:
  // Attention as LayerParams takes it: partial results, or what they combine to.
  struct Attention {
    kernels::cuda::KvSplit split = kernels::cuda::KvSplit::kSingle;
    float* partial_o = nullptr;
    float* partial_ml = nullptr;
    const uint16_t* attended = nullptr;
  };

  // Keeps its result in `scratch`.
  Attention Attend(int64_t layer, const TileSet& set, const LaunchWorkspace& scratch) const;
  // `layer` is the layer of PreAttention, AttentionAndMlp or PostAttention.
  void LaunchLayer(kernels::cuda::LayerPart part, int64_t layer, const TileSet& set,
                   const Attention& attention) const;

  const ModelConfig config_;
  const KernelShape shape_;
  const int64_t least_tiles_of_all_layers_;
  Device& device_;
  std::vector<kernels::cuda::LayerWeights> layers_;
  kernels::cuda::HeadWeights head_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_FUSED_FORM_H_
