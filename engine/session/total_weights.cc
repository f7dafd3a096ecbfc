#include "engine/session/total_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace chorale {
namespace {

constexpr double kNoWeight = -std::numeric_limits<double>::infinity();

}  // namespace

TotalWeights::TotalWeights(int64_t paths, int64_t groups)
    : groups_(groups),
      log_weights_(paths * groups),
      is_density_(paths * groups),
      has_probability_(groups) {}

void TotalWeights::Set(int64_t path, int64_t group, const LastValue& last) {
  const int64_t at = path * groups_ + group;
  log_weights_[at] = last.log_weight;
  is_density_[at] = last.is_density;
  if (!last.is_density && last.log_weight > kNoWeight) has_probability_[group] = true;
}

std::vector<double> TotalWeights::LogWeights() const {
  std::vector<double> log_weights = log_weights_;
  for (size_t at = 0; at < log_weights.size(); ++at) {
    if (is_density_[at] && has_probability_[at % groups_]) log_weights[at] = kNoWeight;
  }
  return log_weights;
}

std::vector<double> EffectiveSampleSizes(const std::vector<double>& log_weights, int64_t groups) {
  std::vector<double> largest(groups, kNoWeight);
  for (size_t at = 0; at < log_weights.size(); ++at) {
    double& of_group = largest[at % groups];
    of_group = std::max(of_group, log_weights[at]);
  }
  std::vector<double> sums(groups);
  std::vector<double> squares(groups);
  for (size_t at = 0; at < log_weights.size(); ++at) {
    const size_t group = at % groups;
    if (largest[group] == kNoWeight) continue;
    const double weight = std::exp(log_weights[at] - largest[group]);
    sums[group] += weight;
    squares[group] += weight * weight;
  }
  std::vector<double> sizes(groups);
  for (int64_t g = 0; g < groups; ++g) {
    if (squares[g] > 0) sizes[g] = sums[g] * sums[g] / squares[g];
  }
  return sizes;
}

}  // namespace chorale
