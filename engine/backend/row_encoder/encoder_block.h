// The attention block of row encoders, on the CPU kernels.
#ifndef CHORALE_ENGINE_BACKEND_ROW_ENCODER_ENCODER_BLOCK_H_
#define CHORALE_ENGINE_BACKEND_ROW_ENCODER_ENCODER_BLOCK_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/host/aligned_buffer.h"
#include "engine/backend/host/attention_kv.h"
#include "engine/backend/host/packed_linear.h"
#include "engine/model/row_encoder_weights.h"

namespace chorale {

// x += Wo attend(Wq LN1(x), Wk LN1(m), Wv LN1(m));  x += W2 gelu(W1 LN2(x) + b1) + b2
//
// The block is divided into parts, because keys and values are shared in different ways. Tokens are
// [n, E], contiguous. `scratch` grows as needed and keeps no data between calls. Immutable and
// thread-safe.
class EncoderBlock {
 public:
  EncoderBlock(const EncoderBlockWeights& weights, int64_t width, int64_t heads, float epsilon);

  struct Scratch {
    AlignedBuffer normed;     // [n, E]
    AlignedBuffer projected;  // [n, 3E]
    AlignedBuffer attended;   // [n, E]
    AlignedBuffer hidden;     // [n, 2E]
    AlignedBuffer kv;         // for one set of tokens
  };

  // The attention of n tokens to a part of the keys.
  struct Part {
    AlignedBuffer attended;  // [n, E]
    AlignedBuffer lse;       // [n, heads]: log-sum-exp of the scores
  };

  // The number of elements of the keys and values of n tokens, and their position in a block of
  // memory of that size.
  int64_t KvSize(int64_t n) const { return kv_shape_.Elements(n); }
  template <typename T>
  KvView<T> KvAt(T* memory, int64_t capacity) const {
    return kv_shape_.At(memory, capacity);
  }

  // Writes the keys and values of memory tokens m after those of the first `offset` tokens.
  void WriteKv(int64_t n, const float* m, int64_t offset, const KvView<float>& kv,
               Scratch& scratch) const;

  // Every token of x attends to all `keys` keys of kv.
  void Attend(int64_t n, float* x, const KvView<const float>& kv, int64_t keys,
              Scratch& scratch) const;

  // The same in parts, so that the keys of many memory tokens need not be in memory together.
  // First, AttendToPart computes the attention of x to each part of the keys, then FinishParts
  // combines the parts in their order. A single part yields the bits of Attend. REQUIRES: each part
  // has at least one key.
  void AttendToPart(int64_t n, const float* x, const KvView<const float>& kv, int64_t keys,
                    Part& part, Scratch& scratch) const;
  void FinishParts(int64_t n, absl::Span<const Part> parts, float* x, Scratch& scratch) const;

  // x [sets, n, E]: every token attends to the tokens of its own set.
  void AttendInSets(int64_t sets, int64_t n, float* x, Scratch& scratch) const;

  // x [sets, n, E], memory [sets, keys, E]: every token attends to the memory tokens of its set.
  void AttendToSets(int64_t sets, int64_t n, float* x, int64_t keys, const float* memory,
                    Scratch& scratch) const;

  // Computes the rest of the block from the result of the attention, `attended` [n, E].
  void Finish(int64_t n, const float* attended, float* x, Scratch& scratch) const;

  // FLOPs of n tokens that attend to `keys` keys each, without the computation of those keys.
  double AttendFlops(double n, double keys) const;
  double KvFlops(double n) const;

 private:
  // Computes the queries of x [n, E] in scratch.projected.
  void Query(int64_t n, const float* x, Scratch& scratch) const;
  // `lse` is [n, heads], or null.
  void AttendToKeys(int64_t n, const float* q, int64_t q_stride, const KvView<const float>& kv,
                    int64_t keys, float* attended, float* lse = nullptr) const;

  int64_t width_;  // E
  KvShape kv_shape_;
  float epsilon_;
  LayerNormWeights norm1_;
  PackedLinear query_;            // Wq
  PackedLinear key_value_;        // Wk over Wv
  PackedLinear query_key_value_;  // Wq over Wk over Wv
  PackedLinear output_;           // Wo
  LayerNormWeights norm2_;
  PackedLinear up_;    // W1, b1
  PackedLinear down_;  // W2, b2
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_ROW_ENCODER_ENCODER_BLOCK_H_
