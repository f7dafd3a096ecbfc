#include "engine/data/orthonormal_basis.h"

#include <cmath>
#include <cstddef>
#include <utility>

namespace chorale {

double DotProduct(absl::Span<const double> a, absl::Span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void OrthonormalBasis::TakeFrom(std::vector<double>* numbers) const {
  for (const std::vector<double>& column : columns_) {
    const double share = DotProduct(column, *numbers);
    for (size_t i = 0; i < numbers->size(); ++i) (*numbers)[i] -= share * column[i];
  }
}

void OrthonormalBasis::Add(absl::Span<const double> column) {
  std::vector<double> left(column.begin(), column.end());
  const double before = std::sqrt(DotProduct(left, left));
  TakeFrom(&left);
  TakeFrom(&left);
  const double length = std::sqrt(DotProduct(left, left));
  constexpr double kNothing = 1e-9;
  if (!(length > kNothing * before) || !std::isfinite(length)) return;
  for (double& number : left) number /= length;
  columns_.push_back(std::move(left));
}

}  // namespace chorale
