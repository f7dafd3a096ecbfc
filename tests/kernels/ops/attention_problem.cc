#include "tests/kernels/ops/attention_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops/append_kv.h"
#include "kernels/ops/panel_layout.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"

namespace chorale::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Packs keys and values of n keys into K/V of that capacity; all padding is NaN.
void Pack(const float* keys, const float* values, int64_t n, int64_t capacity,
          const AttentionShape& shape, float* packed_keys, float* packed_values) {
  if (n == 0) return;
  AppendKvParams p;
  p.k = keys;
  p.v = values;
  p.keys = packed_keys;
  p.values = packed_values;
  p.n = n;
  p.capacity = capacity;
  p.kv_heads = shape.kv_heads;
  p.head_dim = shape.head_dim;
  p.kv_stride = shape.kv_heads * shape.head_dim;
  reference::AppendKv(p);
}

}  // namespace

AttentionShape WithDecodeBuffers(AttentionShape shape, int64_t tokens) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t path = row / tokens;
    shape.row_path.push_back(static_cast<int32_t>(path));
    shape.row_visible.push_back(static_cast<int32_t>((5 * path + 3) % (shape.buffer_capacity + 1)));
  }
  return shape;
}

AttentionShape WithTeacherForcing(AttentionShape shape, int64_t paths, int64_t query_rows) {
  shape.rows = paths * 2 * query_rows;
  for (int64_t path = 0; path < paths; ++path) {
    for (int64_t i = 0; i < 2 * query_rows; ++i) {
      shape.row_path.push_back(static_cast<int32_t>(path));
      shape.row_visible.push_back(static_cast<int32_t>(i < query_rows ? i + 1 : i - query_rows));
    }
  }
  return shape;
}

AttentionProblem::AttentionProblem(const AttentionShape& shape, uint32_t seed) : shape_(shape) {
  const int64_t kv_width = shape.kv_heads * shape.head_dim;
  q_ = RandomTensor(shape.rows * (shape.heads * shape.head_dim + 5), seed);
  context_keys_ = RandomTensor(shape.context_rows * kv_width, seed + 1);
  context_values_ = RandomTensor(shape.context_rows * kv_width, seed + 2);
  buffer_keys_ = RandomTensor(paths() * shape.buffer_capacity * kv_width, seed + 3);
  buffer_values_ = RandomTensor(paths() * shape.buffer_capacity * kv_width, seed + 4);
}

float AttentionProblem::scale() const {
  return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
}

int64_t AttentionProblem::paths() const {
  return shape_.row_path.empty() ? 0 : shape_.row_path.back() + 1;
}

AttentionProblem::Result AttentionProblem::Run(
    void (*attention)(const SharedContextAttentionParams&)) const {
  const AttentionShape& s = shape_;
  const int64_t kv_width = s.kv_heads * s.head_dim;
  const int64_t context_capacity = s.context_rows + spare_context_keys_;
  std::vector<float> keys(s.kv_heads * PackedKeysSize(context_capacity, s.head_dim), kNan);
  std::vector<float> values(s.kv_heads * ValuesSize(context_capacity, s.head_dim), kNan);
  Pack(context_keys_.data(), context_values_.data(), s.context_rows, context_capacity, s,
       keys.data(), values.data());

  const int64_t path_stride = LayerKvSize(s.buffer_capacity, s.kv_heads, s.head_dim) + 7;
  const int64_t values_offset = s.kv_heads * PackedKeysSize(s.buffer_capacity, s.head_dim);
  std::vector<float> buffers(paths() * path_stride, kNan);
  for (int64_t path = 0; path < paths(); ++path) {
    int32_t written = 0;  // keys that some row of the path sees
    for (int64_t row = 0; row < s.rows; ++row) {
      if (s.row_path[row] == path) written = std::max(written, s.row_visible[row]);
    }
    const int64_t from = path * s.buffer_capacity * kv_width;
    float* block = buffers.data() + path * path_stride;
    Pack(buffer_keys_.data() + from, buffer_values_.data() + from, written, s.buffer_capacity, s,
         block, block + values_offset);
  }

  std::vector<float> log_weights;  // [Hkv, capacity]
  if (!context_log_weights_.empty()) log_weights.assign(s.kv_heads * context_capacity, kNan);
  for (size_t i = 0; i < context_log_weights_.size(); ++i) {
    const auto key = static_cast<int64_t>(i) / s.kv_heads;
    log_weights[static_cast<int64_t>(i) % s.kv_heads * context_capacity + key] =
        context_log_weights_[i];
  }

  Result result;
  result.out.assign(s.rows * out_stride(), kNan);
  result.lse.assign(s.rows * s.heads, kNan);
  SharedContextAttentionParams p;
  p.q = q_.data();
  p.out = result.out.data();
  p.lse = result.lse.data();
  if (!log_weights.empty()) p.context_log_weights = log_weights.data();
  if (!hidden_keys_.empty()) p.row_hidden_key = hidden_keys_.data();
  if (s.context_rows > 0) {
    p.context_keys = keys.data();
    p.context_values = values.data();
  }
  if (paths() > 0) {
    p.buffer_keys = buffers.data();
    p.buffer_values = buffers.data() + values_offset;
    p.row_path = s.row_path.data();
    p.row_visible = s.row_visible.data();
  }
  p.rows = s.rows;
  p.heads = s.heads;
  p.kv_heads = s.kv_heads;
  p.head_dim = s.head_dim;
  p.context_rows = s.context_rows;
  p.context_capacity = context_capacity;
  p.buffer_capacity = s.buffer_capacity;
  p.buffer_path_stride = path_stride;
  p.q_stride = s.heads * s.head_dim + 5;
  p.out_stride = out_stride();
  p.scale = scale();
  EXPECT_TRUE(ValidateSharedContextAttention(p).ok()) << ValidateSharedContextAttention(p);
  attention(p);
  return result;
}

void AttentionProblem::WeighContext(float mean, float deviation, int64_t keys, uint32_t seed) {
  context_log_weights_ = RandomTensor(shape_.context_rows * shape_.kv_heads, seed);
  for (size_t i = 0; i < context_log_weights_.size(); ++i) {
    const bool weighted = static_cast<int64_t>(i) < keys * shape_.kv_heads;
    context_log_weights_[i] = weighted ? deviation * context_log_weights_[i] + mean : 0;
  }
}

void AttentionProblem::HideKeys() {
  for (int64_t row = 0; row < shape_.rows; ++row) {
    for (int64_t head = 0; head < shape_.kv_heads; ++head) {
      const int64_t number = (37 * row + 11 * head) % (shape_.context_rows + 1);
      hidden_keys_.push_back(static_cast<int32_t>(number - 1));
    }
  }
}

AttentionProblem AttentionProblem::WithKeysTwice(int64_t keys) const {
  AttentionProblem twice = *this;
  const int64_t kv_width = shape_.kv_heads * shape_.head_dim;
  for (std::vector<float>* tensor : {&twice.context_keys_, &twice.context_values_}) {
    const std::vector<float> first(tensor->begin(), tensor->begin() + keys * kv_width);
    tensor->insert(tensor->end(), first.begin(), first.end());
  }
  twice.context_log_weights_.clear();
  twice.shape_.context_rows += keys;
  return twice;
}

void AttentionProblem::OffsetScores(float context, float buffer) {
  // With q[0] = 1 / scale, a key's element 0 is added to its score.
  const int64_t q_stride = shape_.heads * shape_.head_dim + 5;
  for (int64_t row = 0; row < shape_.rows; ++row) {
    for (int64_t head = 0; head < shape_.heads; ++head) {
      q_[row * q_stride + head * shape_.head_dim] = 1.0f / scale();
    }
  }
  for (size_t i = 0; i < context_keys_.size(); i += shape_.head_dim) context_keys_[i] = context;
  for (size_t i = 0; i < buffer_keys_.size(); i += shape_.head_dim) buffer_keys_[i] = buffer;
}

double AttentionProblem::Score(int64_t row, int64_t head, const float* key) const {
  const float* q = q_.data() + row * (shape_.heads * shape_.head_dim + 5) + head * shape_.head_dim;
  double dot = 0;
  for (int64_t d = 0; d < shape_.head_dim; ++d) dot += static_cast<double>(q[d]) * key[d];
  return dot * scale();
}

void AttentionProblem::ScaleScores(double largest) {
  const int64_t kv_width = shape_.kv_heads * shape_.head_dim;
  const int64_t group = shape_.heads / shape_.kv_heads;
  double found = 0;
  for (int64_t row = 0; row < shape_.rows; ++row) {
    for (int64_t head = 0; head < shape_.heads; ++head) {
      const int64_t at = (head / group) * shape_.head_dim;
      for (int64_t key = 0; key < shape_.context_rows; ++key) {
        found = std::max(found, std::abs(Score(row, head, &context_keys_[key * kv_width + at])));
      }
    }
  }
  for (float& x : q_) x = static_cast<float>(x * (largest / found));
}

void AttentionProblem::ReverseContext() {
  const int64_t kv_width = shape_.kv_heads * shape_.head_dim;
  for (int64_t i = 0, j = shape_.context_rows - 1; i < j; ++i, --j) {
    for (std::vector<float>* tensor : {&context_keys_, &context_values_}) {
      std::swap_ranges(tensor->begin() + i * kv_width, tensor->begin() + (i + 1) * kv_width,
                       tensor->begin() + j * kv_width);
    }
  }
}

AttentionProblem AttentionProblem::Rows(int64_t first, int64_t count) const {
  AttentionProblem part = *this;
  const int64_t q_stride = shape_.heads * shape_.head_dim + 5;
  part.shape_.rows = count;
  part.q_.assign(q_.begin() + first * q_stride, q_.begin() + (first + count) * q_stride);
  if (!hidden_keys_.empty()) {
    part.hidden_keys_.assign(hidden_keys_.begin() + first * shape_.kv_heads,
                             hidden_keys_.begin() + (first + count) * shape_.kv_heads);
  }
  if (!shape_.row_path.empty()) {
    part.shape_.row_path.assign(shape_.row_path.begin() + first,
                                shape_.row_path.begin() + first + count);
    part.shape_.row_visible.assign(shape_.row_visible.begin() + first,
                                   shape_.row_visible.begin() + first + count);
  }
  return part;
}

AttentionProblem AttentionProblem::WithCapacity(int64_t capacity) const {
  AttentionProblem wider = *this;
  const int64_t kv_width = shape_.kv_heads * shape_.head_dim;
  wider.shape_.buffer_capacity = capacity;
  wider.buffer_keys_.assign(paths() * capacity * kv_width, kNan);
  wider.buffer_values_.assign(paths() * capacity * kv_width, kNan);
  for (int64_t path = 0; path < paths(); ++path) {
    const int64_t from = path * shape_.buffer_capacity * kv_width;
    const int64_t size = shape_.buffer_capacity * kv_width;
    std::copy_n(buffer_keys_.begin() + from, size,
                wider.buffer_keys_.begin() + path * capacity * kv_width);
    std::copy_n(buffer_values_.begin() + from, size,
                wider.buffer_values_.begin() + path * capacity * kv_width);
  }
  return wider;
}

AttentionProblem AttentionProblem::WithSpareContextKeys(int64_t keys) const {
  AttentionProblem wider = *this;
  wider.spare_context_keys_ = keys;
  return wider;
}

AttentionProblem AttentionProblem::BufferAsContext() const {
  AttentionProblem joined = *this;
  const int64_t size = shape_.row_visible.front() * shape_.kv_heads * shape_.head_dim;
  const int64_t from =
      shape_.row_path.front() * shape_.buffer_capacity * shape_.kv_heads * shape_.head_dim;
  joined.context_keys_.insert(joined.context_keys_.end(), buffer_keys_.begin() + from,
                              buffer_keys_.begin() + from + size);
  joined.context_values_.insert(joined.context_values_.end(), buffer_values_.begin() + from,
                                buffer_values_.begin() + from + size);
  joined.shape_.context_rows += shape_.row_visible.front();
  joined.shape_.row_path.clear();
  joined.shape_.row_visible.clear();
  joined.shape_.buffer_capacity = 0;
  joined.buffer_keys_.clear();
  joined.buffer_values_.clear();
  return joined;
}

}  // namespace chorale::kernels
