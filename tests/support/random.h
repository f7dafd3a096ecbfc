// Random choices of tests that follow from a seed.
#ifndef CHORALE_TESTS_SUPPORT_RANDOM_H_
#define CHORALE_TESTS_SUPPORT_RANDOM_H_

#include <cstdint>
#include <initializer_list>
#include <random>

#include "absl/time/time.h"

namespace chorale::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // From 0 to n - 1.
  int64_t Below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  bool Percent(int64_t percent) { return Below(100) < percent; }
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[Below(static_cast<int64_t>(values.size()))];
  }
  absl::Duration UpTo(absl::Duration most) {
    return absl::Microseconds(Below(absl::ToInt64Microseconds(most) + 1));
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_SUPPORT_RANDOM_H_
