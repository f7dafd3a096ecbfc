// The mixtures that the head has computed, in host memory.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_MIXTURES_H_
#define CHORALE_ENGINE_BACKEND_CUDA_MIXTURES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/backend.h"

namespace chorale::cuda {

// Converts the output of the head, [rows, 3, M] f32, to float64.
class Mixtures {
 public:
  Mixtures() = default;
  Mixtures(int64_t rows, int64_t components)
      : components_(components), values_(rows * 3 * components) {}

  void Set(int64_t first_row, absl::Span<const float> mixtures);
  MixtureSpan Get(int64_t row) const;

 private:
  int64_t components_ = 0;
  std::vector<double> values_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_MIXTURES_H_
