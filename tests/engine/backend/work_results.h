// All numbers that a case's work yields, to be compared bit by bit.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_WORK_RESULTS_H_
#define CHORALE_TESTS_ENGINE_BACKEND_WORK_RESULTS_H_

#include <vector>

#include "absl/types/span.h"
#include "engine/backend/backend.h"

namespace chorale {

// Values and log-densities of a decode, log-densities of a density, and all mixtures of a
// prediction of `rows` rows. REQUIRES: they are done.
struct WorkResults {
  WorkResults(const DecodeWork& decode_work, const DensityWork& density_work,
              const PredictWork& predict_work, int64_t rows)
      : values(decode_work.values().begin(), decode_work.values().end()),
        decode(Copy(decode_work.log_densities())),
        density(Copy(density_work.log_densities())) {
    for (int64_t row = 0; row < rows; ++row) {
      const MixtureSpan mixture = predict_work.mixture(row);
      for (const absl::Span<const double>& part : {mixture.mean, mixture.std, mixture.log_weight}) {
        predict.insert(predict.end(), part.begin(), part.end());
      }
    }
  }

  bool operator==(const WorkResults&) const = default;

  std::vector<double> values, decode, density, predict;

 private:
  static std::vector<double> Copy(absl::Span<const double> span) {
    return {span.begin(), span.end()};
  }
};

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_BACKEND_WORK_RESULTS_H_
