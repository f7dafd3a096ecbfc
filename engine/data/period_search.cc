#include "engine/data/period_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"
#include "engine/data/orthonormal_basis.h"
#include "engine/data/turns.h"

namespace chorale {
namespace {

constexpr double kShortest = 3;       // period, in steps
constexpr double kPeriods = 2.5;      // in the span, at least
constexpr double kFineness = 6;       // points of the grid per width of a peak
constexpr double kNoSquares = 1e-20;  // of the variance
constexpr int64_t kWaves = 4;         // sine and cosine, two harmonics
constexpr int64_t kLeastFreedom = 4;

constexpr size_t kBlock = 8;  // rows at once, for speed
using Waves = std::array<std::array<double, kBlock>, kWaves>;

// Sines and cosines of this frequency and of `second` times it, at kBlock rows t.
Waves WavesAt(const double* t, double frequency, int second) {
  std::array<SineCosine, kBlock> one;
  for (size_t row = 0; row < kBlock; ++row) one[row] = OfTurns(t[row] * frequency);
  std::array<SineCosine, kBlock> more = one;
  for (int harmonic = 1; harmonic < second; ++harmonic) {
    for (size_t row = 0; row < kBlock; ++row) more[row] = SumOf(more[row], one[row]);
  }
  Waves waves;
  for (size_t row = 0; row < kBlock; ++row) {
    waves[0][row] = one[row].sine;
    waves[1][row] = one[row].cosine;
    waves[2][row] = more[row].sine;
    waves[3][row] = more[row].cosine;
  }
  return waves;
}

// Mean 0 and standard deviation 1 (1/n); nothing where the deviation is at most `least`.
std::optional<std::vector<double>> Standardised(absl::Span<const double> numbers, double least) {
  const double count = static_cast<double>(numbers.size());
  double mean = 0;
  for (const double x : numbers) mean += x;
  mean /= count;
  std::vector<double> result(numbers.begin(), numbers.end());
  for (double& x : result) x -= mean;
  const double deviation = std::sqrt(DotProduct(result, result) / count);
  if (!(deviation > least)) return std::nullopt;
  for (double& x : result) x /= deviation;
  return result;
}

// x^n by multiplications only.
double Power(double x, int64_t n) {
  double power = 1;
  for (; n > 0; n /= 2, x *= x) {
    if (n % 2 == 1) power *= x;
  }
  return power;
}

// That four columns which mean nothing leave at most this ratio of the squares.
double Chance(double ratio, int64_t freedom) {
  ratio = std::clamp(ratio, 0.0, 1.0);
  return Power(std::sqrt(ratio), freedom) * (1 + static_cast<double>(freedom) / 2 * (1 - ratio));
}

// What waves explain of y beside a basis.
class WaveFit {
 public:
  // y [n] is without the basis already; t [n].
  WaveFit(const OrthonormalBasis& basis, absl::Span<const double> t, absl::Span<const double> y)
      : count_(t.size()),
        width_(static_cast<size_t>(basis.size() + 1)),
        t_(t.begin(), t.end()),
        squares_(DotProduct(y, y)) {
    rows_.reserve(width_ * t.size());
    for (size_t row = 0; row < t.size(); ++row) {
      for (const std::vector<double>& column : basis.columns()) rows_.push_back(column[row]);
      rows_.push_back(y[row]);
    }
    t_.resize((count_ + kBlock - 1) / kBlock * kBlock);
    rows_.resize(width_ * t_.size());
    shared_.resize(kWaves * width_);
  }

  double squares() const { return squares_; }

  // Sum of squares of y that waves of this frequency and of `second` times it leave. A wave that
  // the basis tells explains nothing: weights are held by 1e-9 of a wave's own squares.
  double Left(double frequency, int second = 2);

 private:
  using Square = std::array<std::array<double, kWaves>, kWaves>;
  // Adds those of kBlock rows [kBlock, width_], in their order.
  void AddProducts(const Waves& waves, const double* rows, Square* products);
  // By Cholesky's decomposition, of which only the lower half of `products` is used.
  static double Explained(Square products, std::array<double, kWaves> with_y);

  const size_t count_;          // n
  const size_t width_;          // of the basis, and y
  std::vector<double> t_;       // [n], and 0 up to whole blocks, as rows_
  const double squares_;        // of y
  std::vector<double> rows_;    // [n, width_]: the basis, then y
  std::vector<double> shared_;  // [kWaves, width_]: products of waves with these
};

double WaveFit::Explained(Square products, std::array<double, kWaves> with_y) {
  double explained = 0;
  for (int64_t i = 0; i < kWaves; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      for (int64_t k = 0; k < j; ++k) products[i][j] -= products[i][k] * products[j][k];
      products[i][j] = j < i ? products[i][j] / products[j][j] : std::sqrt(products[i][i]);
    }
    for (int64_t k = 0; k < i; ++k) with_y[i] -= products[i][k] * with_y[k];
    with_y[i] /= products[i][i];
    explained += with_y[i] * with_y[i];
  }
  return explained;
}

void WaveFit::AddProducts(const Waves& waves, const double* rows, Square* products) {
  for (int64_t i = 0; i < kWaves; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      for (size_t row = 0; row < kBlock; ++row) (*products)[i][j] += waves[i][row] * waves[j][row];
    }
    double* shared = shared_.data() + i * width_;
    for (size_t k = 0; k < width_; ++k) {
      double sum = shared[k];
      for (size_t row = 0; row < kBlock; ++row) sum += waves[i][row] * rows[row * width_ + k];
      shared[k] = sum;
    }
  }
}

double WaveFit::Left(double frequency, int second) {
  Square products = {};
  absl::c_fill(shared_, 0);
  for (size_t first = 0; first < t_.size(); first += kBlock) {
    Waves waves = WavesAt(t_.data() + first, frequency, second);
    for (size_t row = count_ - first; row < kBlock; ++row) {
      for (auto& wave : waves) wave[row] = 0;  // adds nothing
    }
    AddProducts(waves, rows_.data() + first * width_, &products);
  }
  double trace = 0;
  for (int64_t i = 0; i < kWaves; ++i) trace += products[i][i];
  constexpr double kHold = 1e-9;
  const auto with_basis = [&](int64_t i) {
    return absl::MakeConstSpan(shared_).subspan(i * width_, width_ - 1);
  };
  std::array<double, kWaves> with_y = {};
  for (int64_t i = 0; i < kWaves; ++i) {
    for (int64_t j = 0; j <= i; ++j) products[i][j] -= DotProduct(with_basis(i), with_basis(j));
    products[i][i] += kHold * trace / kWaves;
    with_y[i] = shared_[i * width_ + width_ - 1];
  }
  return squares_ - Explained(products, with_y);
}

struct Candidate {
  double frequency = 0;
  double left = 0;  // squares
};

void KeepBetter(double frequency, WaveFit* fit, Candidate* best) {
  const double left = fit->Left(frequency);
  if (left < best->left) *best = {frequency, left};
}

// The frequency from `low` to `high` that leaves least.
Candidate BestFrequency(double low, double high, double span, WaveFit* fit) {
  double width = 1 / (kFineness * span);
  Candidate best = {low, fit->Left(low)};
  const auto count = static_cast<int64_t>(std::ceil((high - low) / width));
  for (int64_t i = 1; i < count; ++i) KeepBetter(low + static_cast<double>(i) * width, fit, &best);
  constexpr int kRefinements = 2;
  constexpr int kFiner = 8;
  for (int i = 0; i < kRefinements; ++i) {
    const double centre = best.frequency;
    for (int place = -kFiner; place <= kFiner; ++place) {
      if (place == 0) continue;
      KeepBetter(std::clamp(centre + width * place / kFiner, low, high), fit, &best);
    }
    width /= kFiner;
  }
  return best;
}

// 1, or 2 or 3 where the season repeats only after so many periods.
int Multiple(OrthonormalBasis basis, absl::Span<const double> t, std::vector<double> y,
             double period, double span, int64_t freedom) {
  for (const int harmonic : {1, 2}) {
    std::vector<double> sines;
    std::vector<double> cosines;
    for (const double each : t) {
      const SineCosine wave = OfTurns(harmonic * each / period);
      sines.push_back(wave.sine);
      cosines.push_back(wave.cosine);
    }
    basis.Add(sines);
    basis.Add(cosines);
  }
  basis.TakeFrom(&y);
  WaveFit fit(basis, t, y);
  if (fit.squares() <= kNoSquares * static_cast<double>(y.size())) return 1;
  int multiple = 1;
  double least = kSeasonLevel;
  // Of the double, the second harmonic is the period itself; of the triple, the third.
  constexpr std::pair<int, int> kCandidates[] = {{2, 3}, {3, 2}};
  for (const auto& [many, second] : kCandidates) {
    if (many * period > span / kPeriods || freedom < kLeastFreedom) continue;
    const double chance = Chance(fit.Left(1 / (many * period), second) / fit.squares(), freedom);
    if (chance < least) {
      least = chance;
      multiple = many;
    }
  }
  return multiple;
}

// A series and what may explain it without a season.
struct Series {
  std::vector<double> t;  // [n], from 0
  std::vector<double> u;  // [n], t standardised
  std::vector<double> y;  // [n], z-scored
  double span = 0;        // of t
};

OrthonormalBasis Explanations(const Series& series, int64_t before,
                              const std::vector<std::vector<double>>& others) {
  const auto rows = static_cast<int64_t>(series.y.size());
  const auto later = [&](absl::Span<const double> column) { return column.subspan(before); };
  OrthonormalBasis basis;
  basis.Add(std::vector<double>(rows - before, 1.0));
  basis.Add(later(series.u));
  if (rows >= 64) {
    std::vector<double> squared = series.u;
    for (double& u : squared) u *= u;
    basis.Add(later(squared));
  }
  for (int64_t back = 1; back <= before; ++back) {
    basis.Add(absl::MakeConstSpan(series.y).subspan(before - back, rows - before));
  }
  for (const std::vector<double>& column : others) basis.Add(later(column));
  return basis;
}

std::optional<FoundPeriod> FindAfter(int64_t before, const Series& series,
                                     const std::vector<std::vector<double>>& others) {
  const auto rows = static_cast<int64_t>(series.y.size());
  const int64_t regressors =
      2 + (rows >= 64 ? 1 : 0) + before + static_cast<int64_t>(others.size());
  if (regressors > std::min(kMostRegressors, rows)) return std::nullopt;
  const OrthonormalBasis basis = Explanations(series, before, others);
  const absl::Span<const double> t = absl::MakeConstSpan(series.t).subspan(before);
  std::vector<double> y(series.y.begin() + before, series.y.end());
  basis.TakeFrom(&y);
  const int64_t freedom = rows - before - basis.size() - kWaves;
  if (freedom < kLeastFreedom) return std::nullopt;
  WaveFit fit(basis, t, y);
  if (fit.squares() <= kNoSquares * static_cast<double>(rows)) {
    return before > 0 ? FindAfter(0, series, others) : std::nullopt;
  }
  const double span = series.span;
  const double low = kPeriods / span;
  const double high = 1 / kShortest;
  if (!(low <= high)) return std::nullopt;
  Candidate best = BestFrequency(low, high, span, &fit);
  double period = 1 / best.frequency;
  const double whole = std::nearbyint(period);
  if (whole >= kShortest && whole <= span / kPeriods) {
    const double left = fit.Left(1 / whole);
    if (left <= best.left * (1 + 6 / static_cast<double>(freedom))) {
      period = whole;
      best.left = left;
    }
  }
  const double tries = 2 * span * (high - low) + 1;
  const double chance = std::min(1.0, tries * Chance(best.left / fit.squares(), freedom));
  return FoundPeriod{period * Multiple(basis, t, y, period, span, freedom - kWaves), chance};
}

}  // namespace

std::optional<FoundPeriod> FindPeriod(absl::Span<const double> t, absl::Span<const double> y,
                                      const std::vector<std::vector<double>>& others) {
  const auto rows = static_cast<int64_t>(y.size());
  if (rows < 2) return std::nullopt;
  Series series;
  series.span = t.back() - t.front();
  if (!(series.span <= kMostStepsPerRow * static_cast<double>(rows))) return std::nullopt;
  series.t.reserve(t.size());
  for (const double each : t) series.t.push_back(each - t.front());
  // Squares of a user's numbers may be beyond what a float64 holds.
  double size = 0;
  for (const double value : y) size = std::max(size, std::abs(value));
  if (size == 0) return std::nullopt;
  std::vector<double> relative(y.begin(), y.end());
  for (double& value : relative) value /= size;
  constexpr double kConstant = 1e-12;
  std::optional<std::vector<double>> scaled = Standardised(relative, kConstant);
  std::optional<std::vector<double>> u = Standardised(t, 0);
  if (!scaled.has_value() || !u.has_value()) return std::nullopt;
  series.y = *std::move(scaled);
  series.u = *std::move(u);
  constexpr int64_t kMostBefore = 4;
  return FindAfter(std::clamp<int64_t>(rows / 8, 1, kMostBefore), series, others);
}

}  // namespace chorale
