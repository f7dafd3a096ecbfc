// An orthonormal basis of the span of columns, for least squares. Linearly dependent columns are
// omitted.
#ifndef CHORALE_ENGINE_DATA_ORTHONORMAL_BASIS_H_
#define CHORALE_ENGINE_DATA_ORTHONORMAL_BASIS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// Sums are computed in row order, so that equal columns have equal bits. Safe for concurrent reads.
class OrthonormalBasis {
 public:
  // Adds the component of a column that is orthogonal to the basis (QR by Gram-Schmidt, each
  // projection applied twice). Does nothing if the norm of the component is at most 1e-9 times the
  // norm of the column, or if the column is not finite. REQUIRES: all columns have the same number
  // of rows.
  void Add(absl::Span<const double> column);

  // Subtracts from `numbers` [rows] their projection on the basis.
  void TakeFrom(std::vector<double>* numbers) const;

  int64_t size() const { return static_cast<int64_t>(columns_.size()); }
  // [size()], each [rows]
  const std::vector<std::vector<double>>& columns() const { return columns_; }

 private:
  std::vector<std::vector<double>> columns_;
};

// Sums in row order.
double DotProduct(absl::Span<const double> a, absl::Span<const double> b);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_ORTHONORMAL_BASIS_H_
