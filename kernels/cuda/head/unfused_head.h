// The head of models in the unfused form (unfused/unfused_rows.h): layer norm and W1 z are launches
// of their own, which leave W1 z in memory. This kernel does the rest:
//
//   raw = W2 gelu(W1 z + b1) + b2
//
// then the mixture, its log-density and a draw, as in head.h.
#ifndef CHORALE_KERNELS_CUDA_HEAD_UNFUSED_HEAD_H_
#define CHORALE_KERNELS_CUDA_HEAD_UNFUSED_HEAD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

struct UnfusedHeadParams {
  // Without x, and weights.gamma, beta and w1, which are not read. `shape.hidden` is a
  // multiple of 8, zeros included; it has no limit.
  HeadParams head;
  // W1 z, device: with head.paths [tiles, 32, Dff] f32 of the query rows of paths, else [tiles, 64,
  // Dff].
  const float* h = nullptr;
};

// InvalidArgument naming the field.
absl::Status ValidateUnfusedHead(const UnfusedHeadParams& params);

// Bytes of shared memory of a block.
int UnfusedHeadSharedBytes(int32_t components);

// REQUIRES: ValidateUnfusedHead(params).ok(); a block of the device can have
// UnfusedHeadSharedBytes.
ErrorCode LaunchUnfusedHead(const UnfusedHeadParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_HEAD_UNFUSED_HEAD_H_
