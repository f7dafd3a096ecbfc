// The importance of the keys of a context, measured by some rows that attended to it: how much the
// outputs of these rows would change without the key.
//
// For a query q with output o and log-sum-exp lse over all keys that it attends to
// (shared_context_attention.h), a key receives the attention
//
//   p_k = exp(scale * q . key_k + log w_k - lse)
//
// Without the key, the output would be o + p_k / (1 - p_k) (o - value_k), exactly. So
//
//   importance_k = sum over queries of (p_k / max(1 - p_k, 1e-6))^2 |o - value_k|^2
//
// over the rows and over the query heads that read the K/V head of the key. A query whose lse is
// -inf, and a query's hidden key, add nothing.
#ifndef CHORALE_KERNELS_OPS_KEY_ATTENTION_H_
#define CHORALE_KERNELS_OPS_KEY_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

// The least 1 - p_k.
inline constexpr float kLeastRest = 1e-6f;

struct KeyAttentionParams {
  // Of the rows, as in SharedContextAttentionParams. Query head h reads K/V head
  // h / (heads / kv_heads).
  const float* q = nullptr;                 // [rows, H, Dh], row stride q_stride, not yet scaled
  const float* out = nullptr;               // [rows, H, Dh], row stride out_stride: the outputs
  const float* lse = nullptr;               // [rows, H]
  const int32_t* row_hidden_key = nullptr;  // [rows, Hkv], -1: none; null: none of any row

  const float* context_keys = nullptr;         // [Hkv] packed keys, see panel_layout.h
  const float* context_values = nullptr;       // [Hkv, Nctx, Dh]
  const float* context_log_weights = nullptr;  // [Hkv, Nctx]; null: all weights are 1

  // The importance of keys [first_key, first_key + keys) of each K/V head; that of other keys is
  // not written. May be infinite if values have a magnitude above 1e13.
  double* importance = nullptr;  // [Hkv, Nctx]
  int64_t first_key = 0;         // a multiple of kPanel
  int64_t keys = 0;

  int64_t rows = 0;
  int64_t heads = 0;     // H
  int64_t kv_heads = 0;  // Hkv, divides H
  int64_t head_dim = 0;  // Dh
  int64_t context_rows = 0;
  int64_t q_stride = 0;
  int64_t out_stride = 0;
  float scale = 0;
};

absl::Status ValidateKeyAttention(const KeyAttentionParams& params);

// A key's result does not depend on the other keys of the call. Calls on disjoint ranges of keys
// may run at the same time. REQUIRES: ValidateKeyAttention(params).ok().
void KeyAttention(const KeyAttentionParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_KEY_ATTENTION_H_
