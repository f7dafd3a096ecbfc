// Software prefetch.
#ifndef CHORALE_KERNELS_CPU_PREFETCH_H_
#define CHORALE_KERNELS_CPU_PREFETCH_H_

#include <algorithm>
#include <cstdint>

#include "kernels/ops/panel_layout.h"

namespace chorale::kernels {

// Prefetches every cache line that begins in from[0..n) into L2. L1 is too small for data that are
// not used at once.
inline void PrefetchToL2(const float* from, int64_t n) {
  constexpr int kForReading = 0;
  constexpr int kSecondLevel = 2;
  for (int64_t i = 0; i < n; i += kPanel) __builtin_prefetch(from + i, kForReading, kSecondLevel);
}

// Prefetches a range of memory piece by piece.
class PrefetchStream {
 public:
  PrefetchStream(const float* begin, const float* end) : next_(begin), end_(end) {}

  void Ask(int64_t n) {
    n = std::min(n, end_ - next_);
    PrefetchToL2(next_, n);
    next_ += n;
  }

 private:
  const float* next_;
  const float* const end_;
};

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_CPU_PREFETCH_H_
