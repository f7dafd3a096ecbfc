// Comparison of float tensors: NaN and infinity positions first, then every element, absolute or
// relative, naming the worst index. Never a mean alone.
#ifndef CHORALE_TESTS_KERNELS_TENSOR_MATCHERS_H_
#define CHORALE_TESTS_KERNELS_TENSOR_MATCHERS_H_

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace chorale::kernels {

struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// How far `actual` is beyond what is allowed around `expected`, as a multiple of it; infinity when
// one is NaN or infinite and the other is not the same.
inline double Excess(double actual, double expected, const Tolerance& tolerance) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (std::isnan(actual) || std::isnan(expected)) {
    return std::isnan(actual) && std::isnan(expected) ? 0 : kNever;
  }
  if (std::isinf(actual) || std::isinf(expected)) return actual == expected ? 0 : kNever;
  const double allowed = tolerance.absolute + tolerance.relative * std::abs(expected);
  const double difference = std::abs(actual - expected);
  if (difference == 0) return 0;
  return allowed > 0 ? difference / allowed : kNever;
}

// Every element of arg lies within tolerance.absolute + tolerance.relative |expected| of
// `expected`, and NaN and infinities stand at the same indices.
MATCHER_P2(TensorNear, expected, tolerance, "is elementwise near the expected tensor") {
  if (arg.size() != expected.size()) {
    *result_listener << "sizes " << arg.size() << " and " << expected.size();
    return false;
  }
  double worst = 0;
  size_t index = 0;
  size_t wrong = 0;
  for (size_t i = 0; i < arg.size(); ++i) {
    const double excess = Excess(arg[i], expected[i], tolerance);
    if (excess > 1) ++wrong;
    if (excess > worst) {
      worst = excess;
      index = i;
    }
  }
  if (wrong == 0) return true;
  *result_listener << wrong << " of " << arg.size() << " wrong; worst at index " << index
                   << ": actual " << ::testing::PrintToString(arg[index]) << ", expected "
                   << ::testing::PrintToString(expected[index]) << ", " << worst
                   << " times what is allowed";
  return false;
}

// Every element has the same bits.
MATCHER_P(TensorBitsEqual, expected, "has the same bits as the expected tensor") {
  if (arg.size() != expected.size()) {
    *result_listener << "sizes " << arg.size() << " and " << expected.size();
    return false;
  }
  for (size_t i = 0; i < arg.size(); ++i) {
    if (std::memcmp(&arg[i], &expected[i], sizeof(arg[i])) != 0) {
      *result_listener << "first difference at index " << i << ": actual "
                       << ::testing::PrintToString(arg[i]) << ", expected "
                       << ::testing::PrintToString(expected[i]);
      return false;
    }
  }
  return true;
}

}  // namespace chorale::kernels

#endif  // CHORALE_TESTS_KERNELS_TENSOR_MATCHERS_H_
