// Rounded division of counts and sizes. REQUIRES in both functions: a >= 0, b > 0.
#ifndef CHORALE_BASE_INTEGER_MATH_H_
#define CHORALE_BASE_INTEGER_MATH_H_

#include <cstdint>

namespace chorale {

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

}  // namespace chorale

#endif  // CHORALE_BASE_INTEGER_MATH_H_
