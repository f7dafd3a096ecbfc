#include "engine/backend/host/choose_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/require.h"
#include "kernels/ops/random.h"
#include "kernels/ops/step_draw.h"

namespace chorale {
namespace {

constexpr double kShareByWeight = 0.1;
constexpr double kLargestImportance = 1e300;
constexpr double kLeastProbability = 1e-300;

// In [0, kLargestImportance], so that numbers of this kind have an order and a finite sum of roots.
double Bounded(double importance) {
  return importance > 0 ? std::min(importance, kLargestImportance) : 0.0;
}

// Divides `order`, the indices of all keys: the `count` largest values come first, then the largest
// of the others, then the rest. Of equal values, those of smaller rows count as larger.
void MoveLargestToFront(const std::vector<double>& values, absl::Span<const int32_t> rows,
                        int64_t count, std::vector<int32_t>& order) {
  order.resize(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](int32_t a, int32_t b) {
    return values[a] != values[b] ? values[a] > values[b] : rows[a] < rows[b];
  };
  if (count < std::ssize(order)) {
    std::nth_element(order.begin(), order.begin() + count, order.end(), before);
  }
}

// Groups of one key each.
KeyGroups Singles(std::vector<int32_t> keys) {
  KeyGroups groups = {.member = std::move(keys)};
  groups.group_begin.resize(groups.member.size() + 1);
  std::iota(groups.group_begin.begin(), groups.group_begin.end(), 0);
  return groups;
}

// v_j of SampleKeys.
std::vector<double> Probabilities(const KeysToChooseFrom& keys) {
  const size_t n = keys.importance.size();
  const double largest = *std::max_element(keys.log_weights.begin(), keys.log_weights.end());
  double roots = 0;
  double weights = 0;
  for (size_t j = 0; j < n; ++j) {
    roots += std::sqrt(Bounded(keys.importance[j]));
    weights += std::exp(keys.log_weights[j] - largest);
  }
  std::vector<double> probabilities(n);
  for (size_t j = 0; j < n; ++j) {
    const double by_weight = std::exp(keys.log_weights[j] - largest) / weights;
    const double by_importance =
        roots > 0 ? std::sqrt(Bounded(keys.importance[j])) / roots : by_weight;
    probabilities[j] = std::max((1 - kShareByWeight) * by_importance + kShareByWeight * by_weight,
                                kLeastProbability);
  }
  return probabilities;
}

double Uniform(uint64_t seed, uint32_t stream, size_t key) {
  const std::array<uint32_t, 4> words =
      kernels::RandomBlock(seed, stream, static_cast<uint32_t>(key), kernels::RandomStream::kKeep);
  const uint64_t bits = (static_cast<uint64_t>(words[1]) << 32) | words[0];
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

void RequireKeys(const KeysToChooseFrom& keys, int64_t count) {
  const auto n = static_cast<int64_t>(keys.importance.size());
  Require(count >= 1 && count <= n, "1 to n keys are kept");
  Require(std::ssize(keys.log_weights) == n && std::ssize(keys.rows) == n, "arrays are [n]");
}

}  // namespace

KeyGroups KeepAllKeys(int64_t n) {
  std::vector<int32_t> keys(n);
  std::iota(keys.begin(), keys.end(), 0);
  return Singles(std::move(keys));
}

KeyGroups GroupByCentre(absl::Span<const int32_t> nearest, int64_t centres) {
  KeyGroups groups = {.member = std::vector<int32_t>(nearest.size()),
                      .group_begin = std::vector<int32_t>(centres + 1)};
  for (const int32_t centre : nearest) ++groups.group_begin[centre + 1];
  std::partial_sum(groups.group_begin.begin(), groups.group_begin.end(),
                   groups.group_begin.begin());
  std::vector<int32_t> next(groups.group_begin.begin(), groups.group_begin.end() - 1);
  for (size_t key = 0; key < nearest.size(); ++key) {
    groups.member[next[nearest[key]]++] = static_cast<int32_t>(key);
  }
  return groups;
}

KeyGroups KeepHeaviest(const KeysToChooseFrom& keys, int64_t count) {
  RequireKeys(keys, count);
  std::vector<double> values(keys.importance.size());
  std::transform(keys.importance.begin(), keys.importance.end(), values.begin(), Bounded);
  std::vector<int32_t> order;
  MoveLargestToFront(values, keys.rows, count, order);
  order.resize(count);
  std::sort(order.begin(), order.end());
  KeyGroups groups = Singles(std::move(order));
  groups.log_weights.assign(count, 0.0f);
  return groups;
}

KeyGroups SampleKeys(const KeysToChooseFrom& keys, int64_t count, uint64_t seed, uint32_t stream) {
  RequireKeys(keys, count);
  const size_t n = keys.importance.size();
  if (count == static_cast<int64_t>(n)) return KeepAllKeys(count);
  const std::vector<double> probabilities = Probabilities(keys);
  std::vector<double> priorities(n);
  for (size_t j = 0; j < n; ++j) priorities[j] = probabilities[j] / Uniform(seed, stream, j);
  std::vector<int32_t> order;
  MoveLargestToFront(priorities, keys.rows, count, order);
  const double threshold = priorities[order[count]];
  order.resize(count);
  std::sort(order.begin(), order.end());
  KeyGroups groups = Singles(std::move(order));
  groups.log_weights.reserve(count);
  for (const int32_t key : groups.member) {
    const double factor = std::max(1.0, threshold / probabilities[key]);
    groups.log_weights.push_back(static_cast<float>(keys.log_weights[key] + std::log(factor)));
  }
  return groups;
}

}  // namespace chorale
