// The part of a series that waves explain in addition to other regressors.
#ifndef CHORALE_ENGINE_DATA_WAVE_FIT_H_
#define CHORALE_ENGINE_DATA_WAVE_FIT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/data/orthonormal_basis.h"

namespace chorale {

inline constexpr int64_t kWaves = 4;  // sine and cosine, two harmonics

// Sums of squares up to this share of the variance count as zero.
inline constexpr double kNoSquares = 1e-20;

// The probability that `pairs` pairs of columns without any effect leave at most this ratio of the
// squares, with n = `freedom` remaining degrees of freedom: that of a Beta distribution of n/2 and
// `pairs`:
//
//   r^(n/2) sum_{j < pairs} (1 - r)^j (n/2) (n/2 + 1) ... (n/2 + j - 1) / j!
//
// 1 if a column explains less than twice the average of a column without effect: over many series
// even a small bias, such as that of preceding values, would be significant.
double ChanceOfPairs(double ratio, int64_t freedom, int64_t pairs);

// The probability for kWaves columns in each of `series` series, with n in total.
inline double ChanceOfWaves(double ratio, int64_t freedom, int64_t series) {
  return ChanceOfPairs(ratio, freedom, kWaves / 2 * series);
}

// The residual of y [n] after a basis, which waves of t [n] may explain further.
class WaveFit {
 public:
  // Subtracts the projection on the basis from y, and scales the residual to a sum of squares of
  // `freedom`, so that sums over series weight each series by its freedom. Returns nullopt if the
  // freedom is too small.
  static std::optional<WaveFit> Make(OrthonormalBasis basis, std::vector<double> t,
                                     std::vector<double> y, int64_t freedom);

  // Degrees of freedom that waves leave; 0 if the basis leaves no residual.
  int64_t freedom() const { return freedom_; }

  // The residual sum of squares of y after waves of this frequency and of `second` times it. A wave
  // in the span of the basis explains nothing: weights are regularised by 1e-9 of the average
  // squares of a wave.
  double Left(double frequency, int second = 2);

  // The same y, with waves of this period added to the basis; nullopt if too little freedom
  // remains.
  std::optional<WaveFit> Beside(double period) const;

 private:
  static constexpr size_t kBlock = 8;  // rows per block, for speed
  using Waves = std::array<std::array<double, kBlock>, kWaves>;
  using Square = std::array<std::array<double, kWaves>, kWaves>;

  WaveFit(OrthonormalBasis basis, std::vector<double> t, std::vector<double> y, int64_t freedom);
  static Waves WavesAt(const double* t, double frequency, int second);
  // Adds the products of kBlock rows [kBlock, width_], in row order.
  void AddProducts(const Waves& waves, const double* rows, Square* products);
  // Squares that the waves explain, by Cholesky decomposition. Reads only the lower half of
  // `products`.
  static double Explained(Square products, std::array<double, kWaves> with_y);

  OrthonormalBasis basis_;
  size_t count_;  // n
  size_t width_;  // columns of the basis, and y
  int64_t freedom_;
  std::vector<double> t_;       // [n], zero-padded to full blocks, like rows_
  std::vector<double> y_;       // [n]
  std::vector<double> rows_;    // [n, width_]: the basis, then y
  std::vector<double> shared_;  // [kWaves, width_]: products of waves with the columns of rows_
};

// Adds the sine and cosine of t / period, and of its second harmonic, to the basis.
void AddWaves(const std::vector<double>& t, double period, OrthonormalBasis* basis);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_WAVE_FIT_H_
