#include "tests/engine/backend/reference_math.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace chorale::reference {

Vector Linear(const std::vector<float>& w, const std::vector<float>& b, const Vector& x) {
  Vector y(w.size() / x.size());
  for (size_t o = 0; o < y.size(); ++o) {
    y[o] = b.empty() ? 0.0 : b[o];
    for (size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
  }
  return y;
}

Vector Add(Vector a, const Vector& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

Vector LayerNorm(const LayerNormWeights& norm, double epsilon, const Vector& x) {
  const double n = static_cast<double>(x.size());
  double mean = 0;
  for (double value : x) mean += value / n;
  double variance = 0;
  for (double value : x) variance += (value - mean) * (value - mean) / n;
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean) / std::sqrt(variance + epsilon) * norm.gamma[i] + norm.beta[i];
  }
  return y;
}

Vector Gelu(Vector x) {
  for (double& value : x) value = value / 2 * (1 + std::erf(value / std::numbers::sqrt2));
  return x;
}

double LogSumExp(const Vector& x) {
  const double max = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double value : x) sum += std::exp(value - max);
  return max + std::log(sum);
}

void AttendHead(int64_t width, const Vector& q, int64_t q_begin, int64_t kv_begin,
                const std::vector<std::pair<const Vector*, const Vector*>>& pairs, Vector& out,
                const Vector& log_weights) {
  Vector scores;
  for (const auto& [key, value] : pairs) {
    double score = 0;
    for (int64_t d = 0; d < width; ++d) score += q[q_begin + d] * (*key)[kv_begin + d];
    const double log_weight = log_weights.empty() ? 0 : log_weights[scores.size()];
    scores.push_back(score / std::sqrt(static_cast<double>(width)) + log_weight);
  }
  const double lse = LogSumExp(scores);
  for (size_t k = 0; k < pairs.size(); ++k) {
    const double weight = std::exp(scores[k] - lse);
    for (int64_t d = 0; d < width; ++d) {
      out[q_begin + d] += weight * (*pairs[k].second)[kv_begin + d];
    }
  }
}

}  // namespace chorale::reference
