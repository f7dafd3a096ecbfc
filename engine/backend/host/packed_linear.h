// A linear map in the form that the CPU kernels read.
#ifndef CHORALE_ENGINE_BACKEND_HOST_PACKED_LINEAR_H_
#define CHORALE_ENGINE_BACKEND_HOST_PACKED_LINEAR_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/host/aligned_buffer.h"
#include "kernels/ops/linear.h"

namespace chorale {

// y = W x + b. Immutable.
class PackedLinear {
 public:
  PackedLinear() = default;
  // weight [out, in] row-major; bias [out] or empty.
  PackedLinear(const std::vector<float>& weight, const std::vector<float>& bias, int64_t out,
               int64_t in);

  // y [rows, out], contiguous, = activation(W x + b) of x [rows, in], row stride x_stride.
  void Apply(int64_t rows, const float* x, int64_t x_stride, float* y,
             kernels::Activation activation = kernels::Activation::kNone) const;

  const float* weight() const { return weight_.data(); }  // packed, see kernels/ops/panel_layout.h
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }  // [out] or null
  int64_t out() const { return out_; }
  int64_t in() const { return in_; }

 private:
  AlignedBuffer weight_;
  std::vector<float> bias_;
  int64_t out_ = 0;
  int64_t in_ = 0;
};

// Stacks matrices [out_i, in] vertically into a single map that computes all their results.
std::vector<float> Stacked(std::initializer_list<absl::Span<const float>> weights);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_HOST_PACKED_LINEAR_H_
