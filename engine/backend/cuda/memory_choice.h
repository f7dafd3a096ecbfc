// The choice of keys by importance (the policies HEAVY and SAMPLE), on the host.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_MEMORY_CHOICE_H_
#define CHORALE_ENGINE_BACKEND_CUDA_MEMORY_CHOICE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/host/choose_keys.h"
#include "engine/backend/host/key_rows.h"
#include "engine/backend/memory_plan.h"
#include "engine/data/memory_set.h"
#include "engine/model/model_config.h"
#include "kernels/cuda/memory_set/memory_keys.h"

namespace chorale::cuda {

// Thread contract: engine thread only.
class MemoryChoice {
 public:
  MemoryChoice(const ModelConfig& config, const ContextShape& shape, const MemoryPlan& plan,
               uint64_t seed);

  // Both spans outlive the segment; see KeyRows.
  void BeginSegment(int64_t index, const MemorySegment& segment, absl::Span<const int32_t> rows,
                    absl::Span<const int32_t> measuring_index);
  // Returns the key of each measuring row in each head of the layer, or -1, [R, Hkv].
  absl::Span<const int32_t> HiddenKeys(int64_t layer);
  // Chooses the new set of each head. `importance` is [Hkv, keys.places()]. REQUIRES:
  // HiddenKeys(layer) was called.
  std::vector<KeyGroups> Choose(int64_t layer, const kernels::cuda::MemoryKeys& keys,
                                absl::Span<const double> importance);
  // The same of a segment whose keys are all kept.
  std::vector<KeyGroups> KeepAll(int64_t layer);

 private:
  float* SetLogWeights(int64_t layer, int64_t head) {
    return set_log_weights_.data() + (layer * config_.n_kv_heads + head) * set_keys_;
  }

  const ModelConfig config_;
  const MemoryPolicy policy_;
  const int64_t set_keys_;  // M
  const uint64_t seed_;
  int64_t segment_index_ = 0;
  MemorySegment segment_;
  KeyRows rows_;
  std::vector<float> set_log_weights_;  // [L, Hkv, M], natural logarithms
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_MEMORY_CHOICE_H_
