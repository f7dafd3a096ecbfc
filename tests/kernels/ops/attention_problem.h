// A random attention problem whose paddings, unseen keys and outputs are poisoned with NaN.
#ifndef CHORALE_TESTS_KERNELS_OPS_ATTENTION_PROBLEM_H_
#define CHORALE_TESTS_KERNELS_OPS_ATTENTION_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "kernels/ops/shared_context_attention.h"

namespace chorale::kernels {

struct AttentionShape {
  int64_t rows = 1;
  int64_t heads = 4;
  int64_t kv_heads = 4;
  int64_t head_dim = 32;
  int64_t context_rows = 0;
  int64_t buffer_capacity = 0;  // 0 for no buffer
  std::vector<int32_t> row_path;
  std::vector<int32_t> row_visible;
};

// Decode: `tokens` rows per path, path p sees (5 p + 3) mod (capacity + 1) keys.
AttentionShape WithDecodeBuffers(AttentionShape shape, int64_t tokens);

// Teacher forcing: `query_rows` buffer tokens (seeing 1, 2, ...), then `query_rows` query rows
// (seeing 0, 1, ...) per path; shape.rows becomes paths * 2 * query_rows.
AttentionShape WithTeacherForcing(AttentionShape shape, int64_t paths, int64_t query_rows);

// Thread-compatible. Keys and values are kept unpacked, [n, Hkv, Dh], and packed by Run.
class AttentionProblem {
 public:
  AttentionProblem(const AttentionShape& shape, uint32_t seed);

  struct Result {
    std::vector<float> out;  // [rows, H, Dh] with row stride
    std::vector<float> lse;  // [rows, H]
  };
  // Packs everything, checks the parameters and calls `attention` on poisoned outputs.
  Result Run(void (*attention)(const SharedContextAttentionParams&)) const;

  // Gives the context keys log-weights from N(mean, deviation^2); a deviation of 0 gives all the
  // mean. Keys of an index below `keys` only; the others have the log-weight 0.
  void WeighContext(float mean, float deviation, int64_t keys, uint32_t seed);
  // Hides a key from each row, for each K/V head another; from some rows none.
  void HideKeys();
  // The same problem with the first `keys` context keys twice, in place of twice their weight.
  AttentionProblem WithKeysTwice(int64_t keys) const;

  // Adds a number to all scores of context keys and of buffer keys.
  void OffsetScores(float context, float buffer);
  // Scales the queries so that the largest score is `largest` in size.
  void ScaleScores(double largest);
  // The same keys in another order.
  void ReverseContext();
  // The same problem for some of its rows only: first, first + 1, ..., first + count - 1.
  AttentionProblem Rows(int64_t first, int64_t count) const;
  // The same problem with buffers that could hold more.
  AttentionProblem WithCapacity(int64_t capacity) const;
  // The same problem in a context that could hold more.
  AttentionProblem WithSpareContextKeys(int64_t keys) const;
  // The first path's row problem with its visible buffer keys appended to the context instead.
  AttentionProblem BufferAsContext() const;

  const AttentionShape& shape() const { return shape_; }
  int64_t out_stride() const { return shape_.heads * shape_.head_dim + 3; }
  float scale() const;

 private:
  int64_t paths() const;
  double Score(int64_t row, int64_t head, const float* key) const;

  AttentionShape shape_;
  int64_t spare_context_keys_ = 0;
  std::vector<float> q_;                    // [rows, H, Dh] with row stride H Dh + 5
  std::vector<float> context_keys_;         // [Nctx, Hkv, Dh]
  std::vector<float> context_values_;       // [Nctx, Hkv, Dh]
  std::vector<float> context_log_weights_;  // [Nctx, Hkv]; empty: none
  std::vector<int32_t> hidden_keys_;        // [rows, Hkv]; empty: none
  std::vector<float> buffer_keys_;          // [paths, capacity, Hkv, Dh]
  std::vector<float> buffer_values_;        // [paths, capacity, Hkv, Dh]
};

}  // namespace chorale::kernels

#endif  // CHORALE_TESTS_KERNELS_OPS_ATTENTION_PROBLEM_H_
