// Allocates ranges of offsets in a pool. Does not access the memory.
#ifndef CHORALE_ENGINE_POOLS_RANGE_ALLOCATOR_H_
#define CHORALE_ENGINE_POOLS_RANGE_ALLOCATOR_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/integer_math.h"
#include "engine/backend/backend.h"

namespace chorale {

// Best fit over [0, capacity): the smallest gap that is large enough; of equal gaps the lowest.
// Adjacent gaps are merged at once. Every operation takes O(log n) time for n gaps.
//
// Thread contract: not thread-safe; the engine thread owns every instance.
class RangeAllocator {
 public:
  static constexpr int64_t kDefaultAlignment = 64;

  // Offsets and sizes are multiples of `alignment`, a power of two; the part of
  // `capacity` beyond the last multiple is never allocated.
  explicit RangeAllocator(int64_t capacity, int64_t alignment = kDefaultAlignment);

  // Returns a range of at least `bytes` bytes (rounded up to the alignment), or nullopt if no gap
  // is large enough or the limit would be exceeded. REQUIRES: bytes > 0.
  std::optional<PoolRange> Allocate(int64_t bytes);

  // REQUIRES: Allocate returned exactly this range, and it has not been freed since.
  void Free(const PoolRange& range);

  // Limits the bytes in use from now on. Allocated ranges are kept.
  void SetLimit(int64_t bytes) { limit_ = std::clamp<int64_t>(bytes, 0, capacity_); }

  int64_t capacity() const { return capacity_; }
  int64_t limit() const { return limit_; }    // initially the capacity
  int64_t in_use() const { return in_use_; }  // bytes, after rounding
  int64_t RoundUp(int64_t bytes) const {
    return (bytes + alignment_ - 1) / alignment_ * alignment_;
  }

 private:
  void AddGap(int64_t offset, int64_t bytes);
  void RemoveGap(std::map<int64_t, int64_t>::iterator gap);

  const int64_t alignment_;
  const int64_t capacity_;
  int64_t limit_;
  int64_t in_use_ = 0;
  // The same gaps twice: by offset for merging, by (size, offset) for the best fit.
  std::map<int64_t, int64_t> gaps_;
  std::set<std::pair<int64_t, int64_t>> gaps_by_size_;
  std::unordered_map<int64_t, int64_t> allocated_;  // offset -> bytes
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_POOLS_RANGE_ALLOCATOR_H_
