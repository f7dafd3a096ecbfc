// Random keys of a memory set and a segment, on the device and in the layout of the float64
// references.
#ifndef CHORALE_TESTS_KERNELS_CUDA_MEMORY_SET_MEMORY_PROBLEM_H_
#define CHORALE_TESTS_KERNELS_CUDA_MEMORY_SET_MEMORY_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/memory_set/memory_keys.h"
#include "tests/kernels/cuda/device_test.h"

namespace chorale::kernels::cuda {

struct MemoryCase {
  int set_keys = 0;
  int segment_rows = 0;
  ModelShape shape = {.heads = 2, .kv_heads = 2, .head_dim = 32};
  float largest_log_weight = 5;  // of the set's keys, in units of log 2
};

// K, V and log-weights of one layer of a context, in host memory. Numbers are representable in bf16
// if they come from a device.
struct KeySet {
  std::vector<float> k, v;              // [Hkv, keys, Dh]
  std::vector<float> log_weights = {};  // [Hkv, keys], in units of log 2
};

// K and V in key blocks, bf16. The places beyond the last key are zero.
std::vector<uint16_t> PackKeyBlocks(const KeySet& set, int keys, const ModelShape& shape);
// `log_weights` is [Hkv, ContextWeights(keys)].
KeySet UnpackKeyBlocks(const std::vector<uint16_t>& kv, const std::vector<float>& log_weights,
                       int keys, const ModelShape& shape);

// The keys of one head as kernels/ops has them.
struct HeadKeys {
  std::vector<float> keys;         // packed, see panel_layout.h
  std::vector<float> values;       // [n, Dh]
  std::vector<float> log_weights;  // [n], natural
};

class MemoryProblem {
 public:
  // Keys and values of deviation 1. The segment's rows have weights of 1.
  MemoryProblem(const MemoryCase& shape, uint32_t seed);

  // Uploads what is in `all`. Must be called before the methods below.
  void Upload();
  MemoryKeys keys() const;
  const ModelShape& shape() const { return case_.shape; }
  int n() const { return case_.set_keys + case_.segment_rows; }
  int places() const { return keys().places(); }
  HeadKeys Head(int head) const;

  KeySet all;  // the set's keys, then the segment's: n of each head

 private:
  const MemoryCase case_;
  DeviceArray<uint16_t> kv_;
  DeviceArray<float> log_weights_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_MEMORY_SET_MEMORY_PROBLEM_H_
