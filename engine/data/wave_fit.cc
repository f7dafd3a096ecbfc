#include "engine/data/wave_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "engine/data/turns.h"

namespace chorale {
namespace {

constexpr int64_t kLeastFreedom = 4;
constexpr double kLeastEffect = 2;

// x^n by multiplications only.
double Power(double x, int64_t n) {
  double power = 1;
  for (; n > 0; n /= 2, x *= x) {
    if (n % 2 == 1) power *= x;
  }
  return power;
}

}  // namespace

double ChanceOfPairs(double ratio, int64_t freedom, int64_t pairs) {
  ratio = std::clamp(ratio, 0.0, 1.0);
  const auto left = static_cast<double>(freedom);
  const auto columns = static_cast<double>(2 * pairs);
  if ((1 - ratio) * left < kLeastEffect * columns * ratio) return 1;
  const double power = Power(std::sqrt(ratio), freedom);
  constexpr double kNone = 1e-300;  // below it, terms may exceed float64
  if (power < kNone) return 0;
  double sum = 0;
  double term = 1;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const auto more = static_cast<double>(pair);
    sum += term;
    term *= (left / 2 + more) / (more + 1) * (1 - ratio);
  }
  return std::min(1.0, power * sum);
}

void AddWaves(const std::vector<double>& t, double period, OrthonormalBasis* basis) {
  for (const int harmonic : {1, 2}) {
    std::vector<double> sines;
    std::vector<double> cosines;
    for (const double each : t) {
      const SineCosine wave = OfTurns(harmonic * each / period);
      sines.push_back(wave.sine);
      cosines.push_back(wave.cosine);
    }
    basis->Add(sines);
    basis->Add(cosines);
  }
}

std::optional<WaveFit> WaveFit::Make(OrthonormalBasis basis, std::vector<double> t,
                                     std::vector<double> y, int64_t freedom) {
  if (freedom < kLeastFreedom) return std::nullopt;
  basis.TakeFrom(&y);
  const double squares = DotProduct(y, y);
  if (squares <= kNoSquares * static_cast<double>(y.size())) {
    return WaveFit(std::move(basis), std::move(t), std::move(y), 0);
  }
  const double scale = std::sqrt(static_cast<double>(freedom) / squares);
  for (double& each : y) each *= scale;
  return WaveFit(std::move(basis), std::move(t), std::move(y), freedom);
}

WaveFit::WaveFit(OrthonormalBasis basis, std::vector<double> t, std::vector<double> y,
                 int64_t freedom)
    : basis_(std::move(basis)),
      count_(t.size()),
      width_(static_cast<size_t>(basis_.size() + 1)),
      freedom_(freedom),
      t_(std::move(t)),
      y_(std::move(y)) {
  rows_.reserve(width_ * count_);
  for (size_t row = 0; row < count_; ++row) {
    for (const std::vector<double>& column : basis_.columns()) rows_.push_back(column[row]);
    rows_.push_back(y_[row]);
  }
  t_.resize((count_ + kBlock - 1) / kBlock * kBlock);
  rows_.resize(width_ * t_.size());
  shared_.resize(kWaves * width_);
}

std::optional<WaveFit> WaveFit::Beside(double period) const {
  const std::vector<double> t(t_.begin(), t_.begin() + static_cast<int64_t>(count_));
  OrthonormalBasis basis = basis_;
  AddWaves(t, period, &basis);
  return Make(std::move(basis), t, y_, freedom_ - kWaves);
}

// Sines and cosines of this frequency and of `second` times it, at kBlock rows t.
WaveFit::Waves WaveFit::WavesAt(const double* t, double frequency, int second) {
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
  return static_cast<double>(freedom_) - Explained(products, with_y);
}

}  // namespace chorale
