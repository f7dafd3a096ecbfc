// Attention of many query rows to one shared context and, for each row, to the first keys of its
// own path's buffer. This one operation serves every phase:
//
//   encoding a context     rows are context rows, no buffer
//   decode                 two rows per path: the newest buffer token and the next target
//   teacher forcing        2T rows per path: buffer tokens and targets, each with its own prefix
//   point prediction       rows are targets, no buffer
//
//   s_k = scale * q . key_k,   out = sum_k softmax(s)_k value_k,   lse = log sum_k exp(s_k)
//
// over the union of all context keys and the row's visible buffer keys. Context and buffer keys
// accumulate into the same (m, l, o) of softmax_state.h; scores are never written to memory beyond
// one block. With no key at all, out = 0 and lse = -inf.
#ifndef CHORALE_KERNELS_OPS_SHARED_CONTEXT_ATTENTION_H_
#define CHORALE_KERNELS_OPS_SHARED_CONTEXT_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

// Head widths that the kernels are built for: 8, 16, 32, 64 and 128.
bool IsSupportedHeadDim(int64_t head_dim);

struct SharedContextAttentionParams {
  // Query head h reads K/V head h / (heads / kv_heads).
  const float* q = nullptr;  // [rows, H, Dh], row stride q_stride, not yet scaled
  float* out = nullptr;      // [rows, H, Dh], row stride out_stride; may be q itself
  float* lse = nullptr;      // [rows, H], contiguous, or null when not wanted

  // The context, shared by all rows; null when context_rows is 0.
  const float* context_keys = nullptr;    // [Hkv] packed keys, see layout.h
  const float* context_values = nullptr;  // [Hkv, Nctx, Dh]

  // Buffers of the paths, all in one block: path p's keys begin at buffer_keys + p *
  // buffer_path_stride and hold [Hkv] packed keys of capacity buffer_capacity; its values begin at
  // buffer_values + p * buffer_path_stride and hold [Hkv, buffer_capacity, Dh]. Null without one.
  const float* buffer_keys = nullptr;
  const float* buffer_values = nullptr;
  const int32_t* row_path = nullptr;     // [rows], non-decreasing; null when there is no buffer
  const int32_t* row_visible = nullptr;  // [rows], buffer keys 0..row_visible-1 are attended to

  int64_t rows = 0;
  int64_t heads = 0;     // H
  int64_t kv_heads = 0;  // Hkv, divides H
  int64_t head_dim = 0;  // Dh
  int64_t context_rows = 0;
  int64_t buffer_capacity = 0;
  int64_t buffer_path_stride = 0;
  int64_t q_stride = 0;
  int64_t out_stride = 0;
  float scale = 0;  // Dh^-0.5 in this model family
};

absl::Status ValidateSharedContextAttention(const SharedContextAttentionParams& params);

// A row's result does not depend on which other rows are computed with it.
// REQUIRES: ValidateSharedContextAttention(params).ok().
void SharedContextAttention(const SharedContextAttentionParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_SHARED_CONTEXT_ATTENTION_H_
