// The unfused form, for models that are too wide for the fused form: cuBLASLt computes the GEMMs,
// and other kernels the stages between them (kernels/cuda/unfused/unfused_rows.h).
#ifndef CHORALE_ENGINE_BACKEND_CUDA_UNFUSED_FORM_H_
#define CHORALE_ENGINE_BACKEND_CUDA_UNFUSED_FORM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/arena_layout.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/device/weight_blob.h"
#include "engine/backend/cuda/kernel_shape.h"
#include "engine/backend/cuda/layer_form.h"
#include "engine/backend/cuda/tile_set.h"
#include "engine/backend/cuda/unfused_weights.h"
#include "engine/model/model.h"
#include "kernels/cuda/gemm/gemm_library.h"
#include "kernels/cuda/gemm/gemm_plan.h"

namespace chorale::cuda {

// A launch processes as many tiles as the algorithms of the GEMMs and the scratch memory permit.
class UnfusedForm : public LayerForm {
 public:
  // Adds the weights to `blob`. `library` must outlive the form.
  UnfusedForm(const Model& model, const KernelShape& shape, kernels::cuda::GemmLibrary& library,
              Device& device, WeightBlob& blob);

  std::string name() const override { return "unfused"; }
  std::string kv_format() const override;
  // Selects the algorithms of the GEMMs. Returns the errors of PlanGemm.
  absl::Status Prepare() override { return gemms_.Plan(shape_, library_, device_); }
  int64_t most_tiles() const override { return gemms_.most_tiles; }
  int64_t ScratchBytes() const override;
  int64_t SplitsOfTile(int64_t tiles, int64_t largest_context,
                       const LaunchWorkspace& scratch) const override;
  void PreAttention(int64_t layer, const TileSet& set,
                    const LaunchWorkspace& scratch) const override;
  void AttentionAndMlp(int64_t layer, const TileSet& set,
                       const LaunchWorkspace& scratch) const override;
  void PostAttention(int64_t layer, const TileSet& set, const uint16_t* attended,
                     const LaunchWorkspace& scratch) const override;
  bool AllLayers(const kernels::cuda::EmbedPathsParams& /*paths*/,
                 const TileSet& /*set*/) const override {
    return false;
  }
  void Head(const TileSet& set, float* mixtures, const LaunchWorkspace& scratch) const override;

 private:
  // The layout of the scratch memory for a number of tiles.
  class Arrays {
   public:
    Arrays(const KernelShape& shape, int64_t tiles, char* memory);

    uint16_t* attended() const { return attended_.At(memory_); }  // [tiles, 64, H Dh] bf16
    uint16_t* z() const { return z_.At(memory_); }                // [tiles, 64, D] bf16
    uint16_t* hidden() const { return hidden_.At(memory_); }      // [tiles, 64, Dff] bf16
    // The partial results of attention follow the other arrays.
    float* partials() const { return reinterpret_cast<float*>(memory_ + bytes_); }
    // The head overwrites the arrays above.
    uint16_t* head_parts() const { return head_parts_.At(memory_); }  // [tiles, 64, 3, D] bf16
    float* head_h() const { return head_h_.At(memory_); }             // [tiles, 64, Dff] f32

    int64_t bytes() const { return bytes_; }  // without partial results

   private:
    char* const memory_;
    ArenaArray<uint16_t> attended_;
    ArenaArray<uint16_t> z_;
    ArenaArray<uint16_t> hidden_;
    ArenaArray<uint16_t> head_parts_;
    ArenaArray<float> head_h_;
    int64_t bytes_ = 0;
  };

  // Returns the maximum number of tiles of a launch, at least 1.
  int64_t LaunchTiles(const LaunchWorkspace& scratch) const;
  // Divides `set` into parts that fit into a launch, and calls part(tiles, arrays, first) for each.
  // `first` is the first tile of the part.
  template <typename Part>
  void ForParts(const TileSet& set, const LaunchWorkspace& scratch, const Part& part) const;

  void Attend(int64_t layer, const TileSet& set, int64_t splits, const Arrays& arrays) const;
  // From `attended`, which may be in `arrays`.
  void ProjectAndMlp(int64_t layer, const TileSet& set, const uint16_t* attended,
                     const Arrays& arrays) const;
  void Project(int64_t layer, const TileSet& set, const Arrays& arrays) const;
  void Normalize(const TileSet& set, const Arrays& arrays, const float* bias, const float* gamma,
                 const float* beta) const;
  void Multiply(const kernels::cuda::GemmPlan& plan, const uint16_t* x, const uint16_t* weight,
                void* y, int64_t rows, const char* what) const;

  const ModelConfig config_;
  const KernelShape shape_;
  kernels::cuda::GemmLibrary& library_;
  Device& device_;
  UnfusedWeights weights_;
  UnfusedGemms gemms_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_UNFUSED_FORM_H_
