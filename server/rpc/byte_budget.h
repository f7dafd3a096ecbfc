// Limits the memory that all calls of one kind use together.
#ifndef CHORALE_SERVER_RPC_BYTE_BUDGET_H_
#define CHORALE_SERVER_RPC_BYTE_BUDGET_H_

#include <atomic>
#include <cstdint>

namespace chorale {

// Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(int64_t limit) : limit_(limit) {}

  // Returns false and acquires nothing if fewer than `bytes` are left.
  [[nodiscard]] bool TryAcquire(int64_t bytes) {
    int64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit() - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void Release(int64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // For what is acquired from now on.
  void SetLimit(int64_t limit) { limit_.store(limit, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> limit_;
  std::atomic<int64_t> used_{0};
};

// The bytes that one call has acquired; the destructor releases them. Thread-compatible.
class ByteReservation {
 public:
  explicit ByteReservation(ByteBudget* budget) : budget_(budget) {}
  ~ByteReservation() { budget_->Release(bytes_); }
  ByteReservation(const ByteReservation&) = delete;
  ByteReservation& operator=(const ByteReservation&) = delete;

  // Grows the reservation to `bytes`; returns false and leaves it unchanged if the budget is too
  // small.
  [[nodiscard]] bool GrowTo(int64_t bytes) {
    if (bytes <= bytes_) return true;
    if (!budget_->TryAcquire(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }

 private:
  ByteBudget* const budget_;
  int64_t bytes_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_BYTE_BUDGET_H_
