#include "engine/backend/cuda/mixtures.h"

#include <algorithm>

namespace chorale::cuda {

void Mixtures::Set(int64_t first_row, absl::Span<const float> mixtures) {
  std::copy(mixtures.begin(), mixtures.end(), values_.begin() + first_row * 3 * components_);
}

MixtureSpan Mixtures::Get(int64_t row) const {
  const absl::Span<const double> all =
      absl::MakeConstSpan(values_).subspan(row * 3 * components_, 3 * components_);
  return {.mean = all.subspan(0, components_),
          .std = all.subspan(components_, components_),
          .log_weight = all.subspan(2 * components_)};
}

}  // namespace chorale::cuda
