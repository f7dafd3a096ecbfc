// Leases ranges of the backend's buffer pool to sessions.
#ifndef CHORALE_ENGINE_POOLS_BUFFER_POOL_H_
#define CHORALE_ENGINE_POOLS_BUFFER_POOL_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "engine/backend/backend.h"
#include "engine/pools/range_allocator.h"

namespace chorale {

// Thread contract: engine thread only. All leases must be destroyed before the pool.
class BufferPool {
 public:
  // A range of the pool for the lifetime of the lease. Movable.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept {
      if (this == &other) return *this;
      Reset();
      pool_ = std::exchange(other.pool_, nullptr);
      range_ = other.range_;
      return *this;
    }
    ~Lease() { Reset(); }

    void Reset() {
      if (pool_ != nullptr) std::exchange(pool_, nullptr)->Release(range_);
    }
    const PoolRange& range() const { return range_; }

   private:
    friend class BufferPool;
    Lease(BufferPool* pool, PoolRange range) : pool_(pool), range_(range) {}

    BufferPool* pool_ = nullptr;
    PoolRange range_;
  };

  // `backend` must outlive the pool.
  explicit BufferPool(Backend* backend)
      : backend_(backend),
        allocator_(backend->buffer_pool_bytes()),
        limit_(allocator_.capacity()) {}

  // Limits the leased bytes from now on. A caller may exceed the limit if nothing else is leased.
  void SetLimit(int64_t bytes) { limit_ = bytes; }

  // Returns a range of each of these sizes, or an empty vector if the ranges do not all fit into
  // the pool and the limit.
  std::vector<Lease> TryLease(const std::vector<int64_t>& sizes) {
    if (FaultAt(FaultPlace::kBufferPool)) return {};
    allocator_.SetLimit(allocator_.in_use() == 0 ? allocator_.capacity() : limit_);
    std::vector<PoolRange> ranges;
    for (const int64_t bytes : sizes) {
      const std::optional<PoolRange> range = allocator_.Allocate(bytes);
      if (!range.has_value()) {
        for (const PoolRange& taken : ranges) allocator_.Free(taken);
        return {};
      }
      ranges.push_back(*range);
    }
    std::vector<Lease> leases;
    leases.reserve(ranges.size());
    for (const PoolRange& range : ranges) leases.push_back(Lease(this, range));
    return leases;
  }

  int64_t bytes_in_use() const { return allocator_.in_use(); }

 private:
  void Release(const PoolRange& range) {
    backend_->ReleaseBuffer(range);
    allocator_.Free(range);
  }

  Backend* const backend_;
  RangeAllocator allocator_;
  int64_t limit_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_POOLS_BUFFER_POOL_H_
