// Attention of the measuring rows (engine/backend/memory_plan.h): query rows that attend to the
// keys of a set and a segment, each without its own key (kernels/ops/shared_context_attention.h).
//
// Unlike LaunchAttention it also keeps the output and the log-sum-exp in float32, from which
// LaunchKeyImportance computes p / (1 - p) (o - v). Where p is close to 1, o - v nearly cancels.
// Weights of keys are therefore relative to the maximum of the scores so far, so that the largest
// is exactly 1, and are split into two bf16 parts.
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_MEASURING_ATTENTION_H_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_MEASURING_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/memory_set/memory_keys.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// The rows are those of tiles (layout/tile.h), in their order. Pointers are device memory.
struct MeasuringAttentionParams {
  MemoryKeys keys;
  // [RoundUp(rows, 64)] rows. Each begins with q [H, Dh] bf16, times log2(e) Dh^-0.5.
  const uint16_t* q = nullptr;
  int64_t q_stride = 0;  // elements from a row's q to the next one's
  // [rows, Hkv]: the place (MemoryKeys) of the key to which a row does not attend, or -1.
  const int32_t* hidden_places = nullptr;
  uint16_t* attended = nullptr;  // [RoundUp(rows, 64), H, Dh] bf16, for the output projection
  float* out = nullptr;          // [rows, H, Dh] f32: the same
  float* lse = nullptr;          // [rows, H] f32, in units of log 2; -inf without any key
  int32_t rows = 0;
  ModelShape shape;  // H, Hkv, Dh
};

// InvalidArgument naming the field.
absl::Status ValidateMeasuringAttention(const MeasuringAttentionParams& params);

// A row's results depend on its q and the keys alone. REQUIRES:
// ValidateMeasuringAttention(params).ok().
ErrorCode LaunchMeasuringAttention(const MeasuringAttentionParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_MEASURING_ATTENTION_H_
