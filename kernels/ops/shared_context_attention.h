// Attention of token rows to one shared context and to a prefix of the buffer of each row's path:
//
//   s_k = scale * q . key_k + log w_k,   out = sum_k softmax(s)_k value_k,
//   lse = log sum_k exp(s_k)
//
// over the union of the context keys and the buffer keys that are visible to the row. w_k is the
// weight of the key: a key of weight w counts as w equal keys. Without any key, out = 0 and
// lse = -inf. All phases use this operation:
//
//   encode a context     rows are context rows; no buffer
//   measure its keys     rows are context rows that are passed as query rows, each without its own
//                        key (key_attention.h); no buffer
//   decode               two rows per path: its buffer token and its next query row
//   density              2T rows per path: its buffer tokens and query rows, each with its prefix
//   predict              rows are query rows; no buffer
//
// Context and buffer keys update one softmax state (softmax_state.h).
#ifndef CHORALE_KERNELS_OPS_SHARED_CONTEXT_ATTENTION_H_
#define CHORALE_KERNELS_OPS_SHARED_CONTEXT_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

// Whether head_dim is 8, 16, 32, 64 or 128.
bool IsSupportedHeadDim(int64_t head_dim);

struct SharedContextAttentionParams {
  // Query head h reads K/V head h / (heads / kv_heads).
  const float* q = nullptr;  // [rows, H, Dh], row stride q_stride, not yet scaled
  float* out = nullptr;      // [rows, H, Dh], row stride out_stride; may be q itself
  float* lse = nullptr;      // [rows, H], natural logarithm; null: not stored

  // The context, shared by all rows; null if context_rows is 0. The rows attend to its first
  // context_rows keys; other keys, up to the capacity, are not used.
  const float* context_keys = nullptr;    // [Hkv] packed keys of that capacity, see panel_layout.h
  const float* context_values = nullptr;  // [Hkv, context_capacity, Dh]
  // Logarithms of the weights of the context keys, finite; null: all weights are 1. The weights of
  // buffer keys are 1.
  const float* context_log_weights = nullptr;  // [Hkv, context_capacity]
  // The context key to which a row does not attend, for each K/V head; -1: none. Null: none of any
  // row.
  const int32_t* row_hidden_key = nullptr;  // [rows, Hkv]

  // Buffers, in one allocation. Path p has [Hkv] packed keys of capacity buffer_capacity at
  // buffer_keys + p * buffer_path_stride, and values [Hkv, buffer_capacity, Dh] at buffer_values +
  // p * buffer_path_stride. Null without buffers.
  const float* buffer_keys = nullptr;
  const float* buffer_values = nullptr;
  const int32_t* row_path = nullptr;     // [rows], non-decreasing; null without buffers
  const int32_t* row_visible = nullptr;  // [rows], buffer keys 0..row_visible-1 are visible

  int64_t rows = 0;
  int64_t heads = 0;     // H
  int64_t kv_heads = 0;  // Hkv, divides H
  int64_t head_dim = 0;  // Dh
  int64_t context_rows = 0;
  int64_t context_capacity = 0;  // at least context_rows
  int64_t buffer_capacity = 0;
  int64_t buffer_path_stride = 0;
  int64_t q_stride = 0;
  int64_t out_stride = 0;
  float scale = 0;  // usually Dh^-0.5
};

absl::Status ValidateSharedContextAttention(const SharedContextAttentionParams& params);

// A row's result does not depend on the other rows of the call. REQUIRES:
// ValidateSharedContextAttention(params).ok().
void SharedContextAttention(const SharedContextAttentionParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_SHARED_CONTEXT_ATTENTION_H_
