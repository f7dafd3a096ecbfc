#include "engine/pools/range_allocator.h"

#include <iterator>

#include "base/integer_math.h"
#include "base/require.h"

namespace chorale {

RangeAllocator::RangeAllocator(int64_t capacity, int64_t alignment)
    : alignment_(alignment), capacity_(capacity / alignment * alignment), limit_(capacity_) {
  Require(alignment > 0 && (alignment & (alignment - 1)) == 0, "an alignment is a power of two");
  if (capacity_ > 0) AddGap(0, capacity_);
}

std::optional<PoolRange> RangeAllocator::Allocate(int64_t bytes) {
  Require(bytes > 0, "a range has bytes");
  if (bytes > capacity_) return std::nullopt;  // prevents an overflow of the rounding below, too
  bytes = RoundUp(bytes);
  if (bytes > limit_ - in_use_) return std::nullopt;
  const auto best = gaps_by_size_.lower_bound({bytes, 0});
  if (best == gaps_by_size_.end()) return std::nullopt;
  const auto [gap_bytes, offset] = *best;
  RemoveGap(gaps_.find(offset));
  if (gap_bytes > bytes) AddGap(offset + bytes, gap_bytes - bytes);
  allocated_.emplace(offset, bytes);
  in_use_ += bytes;
  return PoolRange{offset, bytes};
}

void RangeAllocator::Free(const PoolRange& range) {
  const auto found = allocated_.find(range.offset);
  Require(found != allocated_.end() && found->second == range.bytes,
          "a range that is freed was allocated");
  allocated_.erase(found);
  in_use_ -= range.bytes;

  int64_t offset = range.offset;
  int64_t bytes = range.bytes;
  const auto after = gaps_.find(offset + bytes);
  if (after != gaps_.end()) {
    bytes += after->second;
    RemoveGap(after);
  }
  const auto next = gaps_.lower_bound(offset);
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      RemoveGap(before);
    }
  }
  AddGap(offset, bytes);
}

void RangeAllocator::AddGap(int64_t offset, int64_t bytes) {
  gaps_.emplace(offset, bytes);
  gaps_by_size_.emplace(bytes, offset);
}

void RangeAllocator::RemoveGap(std::map<int64_t, int64_t>::iterator gap) {
  gaps_by_size_.erase({gap->second, gap->first});
  gaps_.erase(gap);
}

}  // namespace chorale
