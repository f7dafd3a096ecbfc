#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/ops/panel_layout.h"
#include "kernels/ops/random.h"
#include "tests/kernels/reference/reference.h"

namespace chorale::kernels::reference {
namespace {

double Square(const SpreadKeysParams& p, int64_t a, int64_t b) {
  const auto at = [&](int64_t key, int64_t d) -> double {
    return p.keys[((key / kPanel) * p.head_dim + d) * kPanel + key % kPanel];
  };
  double square = 0;
  for (int64_t d = 0; d < p.head_dim; ++d) square += (at(a, d) - at(b, d)) * (at(a, d) - at(b, d));
  constexpr double kMost = std::numeric_limits<float>::max();
  return square < kMost ? square : kMost;  // also of NaN
}

}  // namespace

void SpreadKeys(const SpreadKeysParams& p) {
  std::vector<double> nearest(p.n, 1.0);  // squared distance; so far all alike
  std::vector<bool> is_centre(p.n);
  for (int64_t first = 0; first < p.centre_count; first += kCentresAtOnce) {
    std::vector<double> priority(p.n);
    for (int64_t j = 0; j < p.n; ++j) {
      const uint64_t path = (uint64_t{p.stream} << 32) + first / kCentresAtOnce;
      const double word = RandomBlock(p.seed, path, j / 4, RandomStream::kCentre)[j % 4];
      const double w = p.log_weights == nullptr ? 1.0 : std::exp(double{p.log_weights[j]});
      priority[j] = w * std::max(nearest[j], 1e-30) / -std::log(1 - (word + 0.5) / 4294967296.0);
    }
    std::vector<int32_t> order;
    for (int64_t j = 0; j < p.n; ++j) {
      if (!is_centre[j]) order.push_back(static_cast<int32_t>(j));
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return priority[a] > priority[b]; });
    const int64_t count = std::min(kCentresAtOnce, p.centre_count - first);
    for (int64_t c = 0; c < count; ++c) {
      p.centres[first + c] = order[c];
      is_centre[order[c]] = true;
    }
    for (int64_t j = 0; j < p.n; ++j) {
      if (first == 0) nearest[j] = HUGE_VAL;
      for (int64_t c = first; c < first + count; ++c) {
        const double square = Square(p, j, p.centres[c]);
        if (square >= nearest[j] || is_centre[j]) continue;
        nearest[j] = square;
        p.nearest[j] = static_cast<int32_t>(c);
      }
    }
  }
  for (int64_t c = 0; c < p.centre_count; ++c) p.nearest[p.centres[c]] = static_cast<int32_t>(c);
  for (int64_t j = 0; j < p.n; ++j) {
    p.distance[j] = is_centre[j] ? -1.0f : static_cast<float>(nearest[j]);
  }
}

}  // namespace chorale::kernels::reference
