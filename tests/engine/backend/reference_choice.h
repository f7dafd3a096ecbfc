// The choice of the keys of a memory set in float64, in plain loops that follow the definitions of
// engine/backend/memory_plan.h and of the files that it names, with the same random numbers.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_CHOICE_H_
#define CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_CHOICE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/data/memory_set.h"
#include "tests/engine/backend/reference_math.h"

namespace chorale::reference {

// A key of one K/V head.
struct Key {
  Vector key;    // [Dh]
  Vector value;  // [Dh]
  double log_weight = 0;
  int32_t row = -1;  // of the table; of a merged key, no row
  double importance = 0;
};
using Keys = std::vector<Key>;

// The smallest relative difference between numbers by which keys were chosen.
class SmallestGap {
 public:
  void Add(double larger, double smaller) {
    gap_ = std::min(gap_, larger > 0 ? (larger - smaller) / larger : 0.0);
  }
  double get() const { return gap_; }

 private:
  double gap_ = 1;
};

double Square(const Vector& a, const Vector& b);  // of the distance

// `count` of more keys. `stream` is MemoryStream of the choice.
Keys ChooseKeys(const Keys& keys, size_t count, MemoryPolicy policy, uint64_t seed, uint64_t stream,
                SmallestGap& gap);

}  // namespace chorale::reference

#endif  // CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_CHOICE_H_
