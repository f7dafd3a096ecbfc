// A bound on the memory that all calls of one kind take together.
#ifndef CHORALE_SERVER_RPC_BYTE_BUDGET_H_
#define CHORALE_SERVER_RPC_BYTE_BUDGET_H_

#include <atomic>
#include <cstdint>

namespace chorale {

// Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(int64_t limit) : limit_(limit) {}

  // False, and nothing is taken, when less than `bytes` is left.
  [[nodiscard]] bool TryTake(int64_t bytes) {
    int64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void GiveBack(int64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
};

// What one call has taken; given back when the share is destroyed. Thread-compatible.
class BudgetShare {
 public:
  explicit BudgetShare(ByteBudget* budget) : budget_(budget) {}
  ~BudgetShare() { budget_->GiveBack(bytes_); }
  BudgetShare(const BudgetShare&) = delete;
  BudgetShare& operator=(const BudgetShare&) = delete;

  // Grows the share to `bytes`; false, and it stays as it is, when the budget does not allow that.
  [[nodiscard]] bool GrowTo(int64_t bytes) {
    if (bytes <= bytes_) return true;
    if (!budget_->TryTake(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }

 private:
  ByteBudget* const budget_;
  int64_t bytes_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_BYTE_BUDGET_H_
