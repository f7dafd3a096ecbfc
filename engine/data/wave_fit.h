// What waves explain of a series beside what explains it without them.
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

// Squares that are at most this share of the variance are nothing.
inline constexpr double kNoSquares = 1e-20;

// So many pairs of columns, which mean nothing, leave at most this ratio of the squares with this
// probability, of n degrees of freedom left: that of a Beta distribution of n/2 and `pairs`:
//
//   r^(n/2) sum_{j < pairs} (1 - r)^j (n/2) (n/2 + 1) ... (n/2 + j - 1) / j!
//
// 1 where a column explains less than twice what one that means nothing does on average: of many
// series even a small bias, as values before bring, would be beyond chance.
double ChanceOfPairs(double ratio, int64_t freedom, int64_t pairs);

// The same of kWaves columns for each of so many series, n together.
inline double ChanceOfWaves(double ratio, int64_t freedom, int64_t series) {
  return ChanceOfPairs(ratio, freedom, kWaves / 2 * series);
}

// y [n] beside a basis, as waves of t [n] may explain it further.
class WaveFit {
 public:
  // Takes the basis from y and scales what is left, so that its squares are `freedom`: in sums over
  // series each then counts by its freedom. Nothing if the freedom is too small to tell.
  static std::optional<WaveFit> Make(OrthonormalBasis basis, std::vector<double> t,
                                     std::vector<double> y, int64_t freedom);

  // Degrees of freedom that waves leave; 0 where the basis leaves nothing to explain.
  int64_t freedom() const { return freedom_; }

  // Sum of squares of y that waves of this frequency and of `second` times it leave. A wave that
  // the basis tells explains nothing: weights are held by 1e-9 of a wave's own squares.
  double Left(double frequency, int second = 2);

  // The same y beside waves of this period as well; nothing if that leaves too little.
  std::optional<WaveFit> Beside(double period) const;

 private:
  static constexpr size_t kBlock = 8;  // rows at once, for speed
  using Waves = std::array<std::array<double, kBlock>, kWaves>;
  using Square = std::array<std::array<double, kWaves>, kWaves>;

  WaveFit(OrthonormalBasis basis, std::vector<double> t, std::vector<double> y, int64_t freedom);
  static Waves WavesAt(const double* t, double frequency, int second);
  // Adds those of kBlock rows [kBlock, width_], in their order.
  void AddProducts(const Waves& waves, const double* rows, Square* products);
  // By Cholesky's decomposition, of which only the lower half of `products` is used.
  static double Explained(Square products, std::array<double, kWaves> with_y);

  OrthonormalBasis basis_;
  size_t count_;  // n
  size_t width_;  // of the basis, and y
  int64_t freedom_;
  std::vector<double> t_;       // [n], and 0 up to whole blocks, as rows_
  std::vector<double> y_;       // [n]
  std::vector<double> rows_;    // [n, width_]: the basis, then y
  std::vector<double> shared_;  // [kWaves, width_]: products of waves with these
};

// Adds sine and cosine of t / period and of its second harmonic.
void AddWaves(const std::vector<double>& t, double period, OrthonormalBasis* basis);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_WAVE_FIT_H_
