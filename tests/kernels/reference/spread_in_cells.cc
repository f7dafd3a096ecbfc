#include "kernels/ops/spread_in_cells.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/ops/panel_layout.h"
#include "kernels/ops/random.h"
#include "tests/kernels/reference/reference.h"

namespace chorale::kernels::reference {
namespace {

double SquareInCell(const SpreadInCellParams& p, int64_t a, int64_t b) {
  const auto at = [&](int64_t key, int64_t d) -> double {
    return p.keys[((key / kPanel) * p.head_dim + d) * kPanel + key % kPanel];
  };
  double square = 0;
  for (int64_t d = 0; d < p.head_dim; ++d) square += (at(a, d) - at(b, d)) * (at(a, d) - at(b, d));
  constexpr double kMost = std::numeric_limits<float>::max();
  return square < kMost ? square : kMost;  // also of NaN
}

}  // namespace

void SpreadInCell(const SpreadInCellParams& p) {
  const std::vector<int32_t> member(p.member, p.member + p.cell_keys);
  std::vector<double> distance(p.cell_keys, HUGE_VAL);  // squared
  std::vector<int64_t> nearest(p.cell_keys, -1);
  std::vector<int64_t> centres;  // places in `member`
  const auto is_centre = [&](int64_t i) {
    return std::find(centres.begin(), centres.end(), i) != centres.end();
  };
  for (uint64_t group = 0; static_cast<int64_t>(centres.size()) < p.centre_count; ++group) {
    const auto first = static_cast<int64_t>(centres.size());
    const int64_t size = group == 0 ? 1 : std::min(first, int64_t{8});
    std::vector<int64_t> order;
    std::vector<double> priority(p.cell_keys);
    for (int64_t i = 0; i < p.cell_keys; ++i) {
      if (!is_centre(i)) order.push_back(i);
      const double word =
          RandomBlock(p.seed, (uint64_t{p.stream} << 32) + group / 4,
                      static_cast<uint32_t>(member[i]), RandomStream::kCellCentre)[group % 4];
      priority[i] = p.weight[member[i]] * std::max(distance[i], 1e-30) /
                    -std::log(1 - (word + 0.5) / 4294967296.0);
      if (group == 0) priority[i] = member[i] == p.coarse_centre ? 1 : 0;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return priority[a] > priority[b]; });
    order.resize(std::min(size, p.centre_count - first));
    for (const int64_t centre : order) {
      for (int64_t i = 0; i < p.cell_keys; ++i) {
        const double square = SquareInCell(p, member[i], member[centre]);
        if (square >= distance[i] || is_centre(i)) continue;
        distance[i] = square;
        nearest[i] = static_cast<int64_t>(centres.size());
      }
      nearest[centre] = static_cast<int64_t>(centres.size());
      distance[centre] = -1;
      centres.push_back(centre);
    }
  }
  for (int64_t i = 0; i < p.cell_keys; ++i) {
    p.nearest[member[i]] = static_cast<int32_t>(p.first_index + nearest[i]);
    p.distance[i] = static_cast<float>(distance[i]);
  }
}

}  // namespace chorale::kernels::reference
