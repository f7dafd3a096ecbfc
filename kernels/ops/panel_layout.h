// Memory layouts of the CPU kernels.
//
// Counts and strides are in elements; data are float32 in host memory unless a comment states
// otherwise. A panel stores kPanel adjacent columns next to each other for every index of the
// reduction, so that the inner loop of a GEMM reads one contiguous stream.
#ifndef CHORALE_KERNELS_OPS_PANEL_LAYOUT_H_
#define CHORALE_KERNELS_OPS_PANEL_LAYOUT_H_

#include <cstdint>

#include "base/integer_math.h"

namespace chorale::kernels {

// Columns per panel: one AVX-512 vector of float32, two AVX2 vectors, four SSE vectors.
inline constexpr int64_t kPanel = 16;

// Weights W [out, in] packed as [ceil(out/16)][in][16]: element (o, i) lies at
// ((o/16)*in + i)*16 + o%16. The columns that pad the last panel are zero.
constexpr int64_t PackedLinearSize(int64_t out, int64_t in) { return RoundUp(out, kPanel) * in; }

// Keys of one K/V head, capacity for n keys, packed as [ceil(n/16)][Dh][16]: element (key, d) lies
// at ((key/16)*Dh + d)*16 + key%16. The padding of the last panel is undefined and never used as a
// score.
constexpr int64_t PackedKeysSize(int64_t n, int64_t head_dim) {
  return RoundUp(n, kPanel) * head_dim;
}

// Values of one K/V head: [n][Dh], row-major.
constexpr int64_t ValuesSize(int64_t n, int64_t head_dim) { return n * head_dim; }

// K and V of all Hkv heads of one layer, capacity for n keys: [Hkv] packed keys, then [Hkv] values.
constexpr int64_t LayerKvSize(int64_t n, int64_t kv_heads, int64_t head_dim) {
  return kv_heads * (PackedKeysSize(n, head_dim) + ValuesSize(n, head_dim));
}

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_PANEL_LAYOUT_H_
