// Attention by wgmma, for LaunchAttention.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_WGMMA_SM90_H_
#define CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_WGMMA_SM90_H_

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// REQUIRES: as LaunchAttention, with KvSplit::kSingle; params.q_stride > 0; Dh is 32 or 64, and the
// device has wgmma.
ErrorCode LaunchWgmmaAttention(const AttentionParams& params, Stream stream);

// Likewise with KvSplit::kSplit.
ErrorCode LaunchWgmmaSplitAttention(const AttentionParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_WGMMA_SM90_H_
