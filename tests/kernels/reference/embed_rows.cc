#include "tests/kernels/reference/reference.h"

namespace chorale::kernels::reference {

void EmbedRows(const EmbedRowsParams& p) {
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t i = 0; i < p.width; ++i) {
      double sum = static_cast<double>(p.encodings[p.encoding[r] * p.width + i]) +
                   p.offsets[p.offset[r] * p.width + i];
      if (p.y != nullptr) sum += static_cast<double>(p.y[r]) * p.y_weight[i];
      p.out[r * p.width + i] = static_cast<float>(sum);
    }
  }
}

}  // namespace chorale::kernels::reference
