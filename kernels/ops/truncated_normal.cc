#include "kernels/ops/truncated_normal.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops/normal_quantile.h"

namespace chorale::kernels {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kHalfLogTwoPi = 0.91893853320467274178;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Beyond it, erfc comes near the smallest float64, and the asymptotic series has all digits.
constexpr double kFarTail = 30;
// The log of the smallest probability that NormalQuantile takes.
constexpr double kLeastLogProbability = -700;

double LogNormalDensity(double z) { return -0.5 * z * z - kHalfLogTwoPi; }

// The z with LogNormalCdf(z) = log_probability. REQUIRES: log_probability <= log 1/2.
double LogQuantile(double log_probability) {
  if (log_probability > kLeastLogProbability) return NormalQuantile(std::exp(log_probability));
  double z = -std::sqrt(-2 * log_probability);
  for (int i = 0; i < 50; ++i) {
    // Newton's method for a concave function.
    const double log_cdf = LogNormalCdf(z);
    const double step = (log_cdf - log_probability) * std::exp(log_cdf - LogNormalDensity(z));
    z -= step;
    if (!(std::abs(step) > 4e-16 * std::abs(z))) break;
  }
  return z;
}

// Whether the exponent of the density changes by less than 1/2 over the interval.
bool IsNarrow(double low, double high) {
  return (high - low) * (1 + std::max(std::abs(low), std::abs(high))) < 0.5;
}

// log P(low <= Z <= high) of a narrow interval, by Gauss-Legendre quadrature with 8 points.
double LogNarrowInterval(double low, double high) {
  constexpr double kPoints[] = {0.18343464249564980494, 0.52553240991632898582,
                                0.79666647741362673959, 0.96028985649753623168};
  constexpr double kWeights[] = {0.36268378337836198297, 0.31370664587788728734,
                                 0.22238103445337447054, 0.10122853629037625915};
  const double half_width = 0.5 * (high - low);
  const double middle = low + half_width;
  double mean = 0;  // of the density, relative to that in the middle
  for (int i = 0; i < 4; ++i) {
    for (const double t : {half_width * kPoints[i], -half_width * kPoints[i]}) {
      mean += 0.5 * kWeights[i] * std::exp(-t * (middle + 0.5 * t));
    }
  }
  return LogNormalDensity(middle) + std::log(high - low) + std::log(mean);
}

}  // namespace

double LogNormalCdf(double z) {
  if (z > 0) return std::log1p(-0.5 * std::erfc(z * kSqrtHalf));
  if (z > -kFarTail) return std::log(0.5 * std::erfc(-z * kSqrtHalf));
  if (z == -kInfinity) return z;
  // The asymptotic series of the ratio of the tail and the density, -1/z (1 - 1/z^2 + 3/z^4 - ...).
  const double inverse_square = 1 / (z * z);
  double series = 1;
  for (int factor = 13; factor >= 1; factor -= 2) series = 1 - factor * inverse_square * series;
  return LogNormalDensity(z) - std::log(-z) + std::log(series);
}

double LogNormalInterval(double low, double high) {
  if (low == high) return -kInfinity;
  if (low > 0) return LogNormalInterval(-high, -low);
  if (IsNarrow(low, high)) return LogNarrowInterval(low, high);
  if (high >= 0) {
    // Of two parts, so that nothing cancels. Near 1, the probability of the rest is accurate.
    const double inside = 0.5 * (std::erf(high * kSqrtHalf) + std::erf(-low * kSqrtHalf));
    if (inside < 0.5) return std::log(inside);
    return std::log1p(-0.5 * (std::erfc(high * kSqrtHalf) + std::erfc(-low * kSqrtHalf)));
  }
  const double log_all = LogNormalCdf(high);
  if (log_all == -kInfinity) return log_all;
  return log_all + std::log(-std::expm1(LogNormalCdf(low) - log_all));
}

double TruncatedNormalQuantile(double low, double high, double probability) {
  if (low > 0) return -TruncatedNormalQuantile(-high, -low, 1 - probability);
  double z = 0;
  if (high - low < 1e-6) {
    // The density is exponential, except for a relative error below 1e-12.
    const double rate = 0.5 * (low + high);
    const double change = rate * (high - low);
    z = low + (std::abs(change) < 1e-12 ? probability * (high - low)
                                        : -std::log1p(probability * std::expm1(-change)) / rate);
  } else if (high >= 0) {
    const double below = 0.5 * std::erfc(-low * kSqrtHalf);
    const double above = 0.5 * std::erfc(high * kSqrtHalf);
    const double inside = std::exp(LogNormalInterval(low, high));
    const double lower = below + probability * inside;
    z = lower <= 0.5 ? NormalQuantile(lower) : -NormalQuantile(above + (1 - probability) * inside);
  } else {
    const double log_all = LogNormalCdf(high);
    const double outside = std::exp(LogNormalCdf(low) - log_all);
    z = LogQuantile(log_all + std::log(probability + (1 - probability) * outside));
  }
  return std::clamp(z, low, high);
}

}  // namespace chorale::kernels
