// Layers and head of the wide form as launches: what Forward does for models of that form.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_WIDE_FORWARD_H_
#define CHORALE_ENGINE_BACKEND_CUDA_WIDE_FORWARD_H_

#include <cstdint>

#include "base/arena_layout.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/tile_set.h"
#include "engine/backend/cuda/wide_model.h"
#include "engine/model/model_config.h"
#include "kernels/cuda/products/product_library.h"
#include "kernels/cuda/products/product_plan.h"

namespace chorale::cuda {

// Takes as many tiles at a time as the products have algorithms for and the memory holds: a tile's
// results do not depend on that. Immutable.
class WideForward {
 public:
  // REQUIRES: memory.bytes >= TileBytes(model.shape()).
  WideForward(const WideModel& model, const ModelConfig& config, const LaunchWorkspace& memory);

  // Bytes that one tile needs between the launches of a layer or of the head.
  static int64_t TileBytes(const KernelShape& shape);

  // As those of Forward.
  int64_t SplitsOfTile(int64_t tiles, int64_t largest_context) const;
  void PreAttention(int64_t layer, const TileSet& set) const;
  void AttentionAndMlp(int64_t layer, const TileSet& set) const;
  void Head(const TileSet& set, float* mixtures) const;

 private:
  // How the memory is divided for a launch of so many tiles.
  struct Scratch {
    Scratch(const KernelShape& shape, int64_t tiles);

    ArenaArray<uint16_t> attended;  // [tiles, 64, H Dh] bf16
    ArenaArray<uint16_t> z;         // [tiles, 64, D] bf16
    ArenaArray<uint16_t> hidden;    // [tiles, 64, Dff] bf16
    int64_t partials = 0;           // where they begin

    // While there is a head, in the same memory.
    ArenaArray<uint16_t> head_parts;  // [tiles, 64, 3, D] bf16
    ArenaArray<float> head_h;         // [tiles, 64, Dff] f32
  };

  // Parts of `set`, and what of them: part(tiles, scratch).
  template <typename Part>
  void ForParts(const TileSet& set, const Part& part) const;

  void Attend(int64_t layer, const TileSet& set, int64_t splits, const Scratch& scratch) const;
  bool HasEncodeAttention() const;
  void AttendToEncoded(int64_t layer, const TileSet& set, const Scratch& scratch) const;
  void Mlp(int64_t layer, const TileSet& set, const Scratch& scratch) const;
  void Project(int64_t layer, const TileSet& set, const Scratch& scratch) const;
  void Normalize(const TileSet& set, const Scratch& scratch, const float* bias, const float* gamma,
                 const float* beta) const;
  void Multiply(const kernels::cuda::ProductPlan& plan, const uint16_t* x, const uint16_t* weight,
                void* y, int64_t rows, const char* what) const;
  template <typename T>
  T* At(const ArenaArray<T>& array) const {
    return array.At(memory_.memory);
  }

  const WideModel& model_;
  const KernelShape& shape_;
  const ModelConfig& config_;
  const LaunchWorkspace memory_;
  Device& device_;
  const int64_t launch_tiles_;  // most tiles of a launch, at least 1
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_WIDE_FORWARD_H_
