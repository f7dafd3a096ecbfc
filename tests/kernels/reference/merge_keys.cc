#include <cmath>

#include "kernels/ops/panel_layout.h"
#include "tests/kernels/reference/reference.h"

namespace chorale::kernels::reference {

void MergeKeys(const MergeKeysParams& p) {
  const auto at = [&](int64_t key, int64_t d) {
    return ((key / kPanel) * p.head_dim + d) * kPanel + key % kPanel;
  };
  for (int64_t g = p.first_group; g < p.end_group; ++g) {
    const auto weight = [&](int32_t key) {
      return p.log_weights == nullptr ? 1.0 : std::exp(double{p.log_weights[key]});
    };
    double total = 0;
    for (int32_t i = p.group_begin[g]; i < p.group_begin[g + 1]; ++i) {
      total += weight(p.member[i]);
    }
    for (int64_t d = 0; d < p.head_dim; ++d) {
      double key = 0;
      double value = 0;
      for (int32_t i = p.group_begin[g]; i < p.group_begin[g + 1]; ++i) {
        const int32_t j = p.member[i];
        const double w = weight(j);
        key += w * p.keys[at(j, d)];
        value += w * p.values[j * p.head_dim + d];
      }
      p.out_keys[at(g, d)] = static_cast<float>(key / total);
      p.out_values[g * p.head_dim + d] = static_cast<float>(value / total);
    }
    p.out_log_weights[g] = static_cast<float>(std::log(total));
  }
}

}  // namespace chorale::kernels::reference
