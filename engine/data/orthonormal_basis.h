// An orthonormal basis of what columns of numbers span: least squares without the columns that
// depend on others.
#ifndef CHORALE_ENGINE_DATA_ORTHONORMAL_BASIS_H_
#define CHORALE_ENGINE_DATA_ORTHONORMAL_BASIS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// Sums are in the order of the rows, so equal columns give equal bits. Safe for concurrent reads.
class OrthonormalBasis {
 public:
  // Adds what a column has beside those before it (QR by Gram and Schmidt, each projection taken
  // twice); nothing where that is at most 1e-9 of the column, or the column is not finite.
  // REQUIRES: all columns have the same number of rows.
  void Add(absl::Span<const double> column);

  // Takes from `numbers` [rows] what the columns can explain.
  void TakeFrom(std::vector<double>* numbers) const;

  int64_t size() const { return static_cast<int64_t>(columns_.size()); }
  // [size()], each [rows]
  const std::vector<std::vector<double>>& columns() const { return columns_; }

 private:
  std::vector<std::vector<double>> columns_;
};

// In the order of the rows.
double DotProduct(absl::Span<const double> a, absl::Span<const double> b);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_ORTHONORMAL_BASIS_H_
