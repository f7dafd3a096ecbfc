#include "engine/backend/row_encoder/encoder_block.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "engine/backend/host/normalize.h"
#include "kernels/ops/shared_context_attention.h"

namespace chorale {

EncoderBlock::EncoderBlock(const EncoderBlockWeights& weights, int64_t width, int64_t heads,
                           float epsilon)
    : width_(width),
      kv_shape_{.heads = heads, .head_dim = width / heads},
      epsilon_(epsilon),
      norm1_(weights.norm1),
      query_(weights.wq, {}, width, width),
      key_value_(Stacked({weights.wk, weights.wv}), {}, 2 * width, width),
      query_key_value_(Stacked({weights.wq, weights.wk, weights.wv}), {}, 3 * width, width),
      output_(weights.wo, {}, width, width),
      norm2_(weights.norm2),
      up_(weights.w1, weights.b1, 2 * width, width),
      down_(weights.w2, weights.b2, width, 2 * width) {}

void EncoderBlock::WriteKv(int64_t n, const float* m, int64_t offset, const KvView<float>& kv,
                           Scratch& scratch) const {
  scratch.normed.Reserve(n * width_);
  scratch.projected.Reserve(n * 2 * width_);
  Normalize(norm1_, epsilon_, n, m, nullptr, scratch.normed.data());
  key_value_.Apply(n, scratch.normed.data(), width_, scratch.projected.data());
  AppendKv(kv_shape_, n, scratch.projected.data(), 2 * width_, kv, offset);
}

void EncoderBlock::AttendToKeys(int64_t n, const float* q, int64_t q_stride,
                                const KvView<const float>& kv, int64_t keys, float* attended,
                                float* lse) const {
  const kernels::SharedContextAttentionParams params = {
      .q = q,
      .out = attended,
      .lse = lse,
      .context_keys = kv.keys,
      .context_values = kv.values,
      .rows = n,
      .heads = kv_shape_.heads,
      .kv_heads = kv_shape_.heads,
      .head_dim = kv_shape_.head_dim,
      .context_rows = keys,
      .context_capacity = kv.capacity,
      .q_stride = q_stride,
      .out_stride = width_,
      .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(kv_shape_.head_dim)))};
  assert(kernels::ValidateSharedContextAttention(params).ok());
  kernels::SharedContextAttention(params);
}

void EncoderBlock::Query(int64_t n, const float* x, Scratch& scratch) const {
  scratch.normed.Reserve(n * width_);
  scratch.projected.Reserve(n * width_);
  Normalize(norm1_, epsilon_, n, x, nullptr, scratch.normed.data());
  query_.Apply(n, scratch.normed.data(), width_, scratch.projected.data());
}

void EncoderBlock::Attend(int64_t n, float* x, const KvView<const float>& kv, int64_t keys,
                          Scratch& scratch) const {
  Query(n, x, scratch);
  scratch.attended.Reserve(n * width_);
  AttendToKeys(n, scratch.projected.data(), width_, kv, keys, scratch.attended.data());
  Finish(n, scratch.attended.data(), x, scratch);
}

void EncoderBlock::AttendToPart(int64_t n, const float* x, const KvView<const float>& kv,
                                int64_t keys, Part& part, Scratch& scratch) const {
  Query(n, x, scratch);
  part.attended.Reserve(n * width_);
  part.lse.Reserve(n * kv_shape_.heads);
  AttendToKeys(n, scratch.projected.data(), width_, kv, keys, part.attended.data(),
               part.lse.data());
}

void EncoderBlock::FinishParts(int64_t n, absl::Span<const Part> parts, float* x,
                               Scratch& scratch) const {
  scratch.attended.Reserve(n * width_);
  std::copy_n(parts[0].attended.data(), n * width_, scratch.attended.data());
  const int64_t head_dim = kv_shape_.head_dim;
  for (int64_t i = 0; i < n * kv_shape_.heads && parts.size() > 1; ++i) {
    float largest = parts[0].lse.data()[i];
    for (const Part& part : parts) largest = std::max(largest, part.lse.data()[i]);
    std::vector<double> sums(head_dim);
    double weights = 0;
    for (const Part& part : parts) {
      const double weight = std::exp(static_cast<double>(part.lse.data()[i]) - largest);
      weights += weight;
      for (int64_t d = 0; d < head_dim; ++d) {
        sums[d] += weight * part.attended.data()[i * head_dim + d];
      }
    }
    for (int64_t d = 0; d < head_dim; ++d) {
      scratch.attended.data()[i * head_dim + d] = static_cast<float>(sums[d] / weights);
    }
  }
  Finish(n, scratch.attended.data(), x, scratch);
}

void EncoderBlock::AttendInSets(int64_t sets, int64_t n, float* x, Scratch& scratch) const {
  const int64_t tokens = sets * n;
  scratch.normed.Reserve(tokens * width_);
  scratch.projected.Reserve(tokens * 3 * width_);
  scratch.attended.Reserve(tokens * width_);
  scratch.kv.Reserve(kv_shape_.Elements(n));
  Normalize(norm1_, epsilon_, tokens, x, nullptr, scratch.normed.data());
  query_key_value_.Apply(tokens, scratch.normed.data(), width_, scratch.projected.data());
  const KvView<float> kv = kv_shape_.At(scratch.kv.data(), n);
  for (int64_t set = 0; set < sets; ++set) {
    const float* q = scratch.projected.data() + set * n * 3 * width_;
    AppendKv(kv_shape_, n, q + width_, 3 * width_, kv, 0);
    AttendToKeys(n, q, 3 * width_, kv, n, scratch.attended.data() + set * n * width_);
  }
  Finish(tokens, scratch.attended.data(), x, scratch);
}

void EncoderBlock::AttendToSets(int64_t sets, int64_t n, float* x, int64_t keys,
                                const float* memory, Scratch& scratch) const {
  const int64_t tokens = sets * n;
  // The queries follow the memory's projections.
  const int64_t memory_size = sets * keys * 2 * width_;
  scratch.normed.Reserve(std::max(tokens, sets * keys) * width_);
  scratch.projected.Reserve(memory_size + tokens * width_);
  scratch.attended.Reserve(tokens * width_);
  scratch.kv.Reserve(kv_shape_.Elements(keys));
  float* projected = scratch.projected.data();
  float* queries = projected + memory_size;
  Normalize(norm1_, epsilon_, sets * keys, memory, nullptr, scratch.normed.data());
  key_value_.Apply(sets * keys, scratch.normed.data(), width_, projected);
  Normalize(norm1_, epsilon_, tokens, x, nullptr, scratch.normed.data());
  query_.Apply(tokens, scratch.normed.data(), width_, queries);
  const KvView<float> kv = kv_shape_.At(scratch.kv.data(), keys);
  for (int64_t set = 0; set < sets; ++set) {
    AppendKv(kv_shape_, keys, projected + set * keys * 2 * width_, 2 * width_, kv, 0);
    AttendToKeys(n, queries + set * n * width_, width_, kv, keys,
                 scratch.attended.data() + set * n * width_);
  }
  Finish(tokens, scratch.attended.data(), x, scratch);
}

void EncoderBlock::Finish(int64_t n, const float* attended, float* x, Scratch& scratch) const {
  const auto add = [&](const float* more) {
    for (int64_t i = 0; i < n * width_; ++i) x[i] += more[i];
  };
  scratch.normed.Reserve(n * width_);
  scratch.hidden.Reserve(n * 2 * width_);
  float* normed = scratch.normed.data();
  output_.Apply(n, attended, width_, normed);
  add(normed);
  Normalize(norm2_, epsilon_, n, x, nullptr, normed);
  up_.Apply(n, normed, width_, scratch.hidden.data(), kernels::Activation::kGelu);
  down_.Apply(n, scratch.hidden.data(), 2 * width_, normed);
  add(normed);
}

double EncoderBlock::AttendFlops(double n, double keys) const {
  const double width = static_cast<double>(width_);
  return n * (12 * width * width + 4 * keys * width);
}

double EncoderBlock::KvFlops(double n) const {
  const double width = static_cast<double>(width_);
  return n * 4 * width * width;
}

}  // namespace chorale
