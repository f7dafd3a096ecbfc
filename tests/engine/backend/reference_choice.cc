#include "tests/engine/backend/reference_choice.h"

#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "kernels/ops/random.h"

namespace chorale::reference {
namespace {

// Keys `kept`, in their order.
Keys InOrder(const Keys& keys, std::vector<size_t> kept) {
  std::sort(kept.begin(), kept.end());
  Keys chosen;
  for (const size_t j : kept) chosen.push_back(keys[j]);
  return chosen;
}

// The indices of the keys, the largest value first; of equal values, that of the smaller row.
std::vector<size_t> Descending(const Keys& keys, const Vector& values) {
  std::vector<size_t> order(keys.size());
  for (size_t j = 0; j < order.size(); ++j) order[j] = j;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(-values[a], keys[a].row) < std::pair(-values[b], keys[b].row);
  });
  return order;
}

Keys Heaviest(const Keys& keys, size_t count, SmallestGap& gap) {
  Vector values;
  for (const Key& key : keys) values.push_back(key.importance);
  std::vector<size_t> order = Descending(keys, values);
  gap.Add(values[order[count - 1]], values[order[count]]);
  order.resize(count);
  Keys chosen = InOrder(keys, std::move(order));
  for (Key& key : chosen) key.log_weight = 0;
  return chosen;
}

Keys Sampled(Keys keys, size_t count, uint64_t seed, uint64_t path, SmallestGap& gap) {
  double roots = 0;
  double weights = 0;
  for (const Key& key : keys) {
    roots += std::sqrt(key.importance);
    weights += std::exp(key.log_weight);
  }
  Vector probability, priority;
  for (size_t j = 0; j < keys.size(); ++j) {
    probability.push_back(0.9 * std::sqrt(keys[j].importance) / roots +
                          0.1 * std::exp(keys[j].log_weight) / weights);
    const auto words = kernels::RandomBlock(seed, path, j, kernels::RandomStream::kKeep);
    const uint64_t bits = (uint64_t{words[1]} << 32 | words[0]) >> 11;
    priority.push_back(probability[j] / std::ldexp(static_cast<double>(bits) + 0.5, -53));
  }
  std::vector<size_t> order = Descending(keys, priority);
  const double threshold = priority[order[count]];
  gap.Add(priority[order[count - 1]], threshold);
  order.resize(count);
  for (const size_t j : order) {
    keys[j].log_weight -= std::log(std::min(1.0, probability[j] / threshold));
  }
  return InOrder(keys, std::move(order));
}

// The keys that join each of some centres.
struct Group {
  size_t centre = 0;
  std::vector<size_t> keys;  // ascending
  double potential = 0;
};

// k-means++ among some keys: of all keys, or of a cell with a coarse centre.
std::vector<Group> Spread(const Keys& keys, const std::vector<size_t>& member, size_t count,
                          std::optional<size_t> coarse, uint64_t seed, uint64_t stream,
                          SmallestGap& gap) {
  const auto uniform = [&](uint64_t group, size_t j) {
    const double word =
        coarse.has_value()
            ? kernels::RandomBlock(seed, stream << 32 | group / 4, static_cast<uint32_t>(j),
                                   kernels::RandomStream::kCellCentre)[group % 4]
            : kernels::RandomBlock(seed, stream << 32 | group, static_cast<uint32_t>(j / 4),
                                   kernels::RandomStream::kCentre)[j % 4];
    return std::ldexp(word + 0.5, -32);
  };
  std::vector<Group> groups;
  std::map<size_t, double> nearest;              // squared distances of keys that are no centres
  for (const size_t j : member) nearest[j] = 1;  // so far all alike
  for (uint64_t group = 0; groups.size() < count; ++group) {
    std::vector<std::pair<double, size_t>> priorities;  // negative, to sort
    for (const auto& [j, square] : nearest) {
      const double value = std::exp(keys[j].log_weight) * std::max(square, 1e-30);
      priorities.emplace_back(value / std::log(1 - uniform(group, j)), j);
      if (group == 0 && coarse == j) priorities.back().first = -HUGE_VAL;
    }
    std::sort(priorities.begin(), priorities.end());
    size_t drawn = 8;
    if (coarse.has_value()) drawn = std::min<size_t>(8, std::max<size_t>(1, groups.size()));
    drawn = std::min(drawn, count - groups.size());
    for (size_t c = 0; c < drawn; ++c) {
      const bool drawn_by_priority = group > 0 || !coarse.has_value();
      if (drawn_by_priority && c + 1 < priorities.size()) {
        gap.Add(-priorities[c].first, -priorities[c + 1].first);
      }
      groups.push_back({.centre = priorities[c].second});
      nearest.erase(groups.back().centre);
    }
    for (auto& [j, square] : nearest) {
      if (group == 0) square = HUGE_VAL;
      for (size_t c = groups.size() - drawn; c < groups.size(); ++c) {
        square = std::min(square, Square(keys[j].key, keys[groups[c].centre].key));
      }
    }
  }
  for (const size_t j : member) {
    Vector squares;
    for (const Group& each : groups) squares.push_back(Square(keys[j].key, keys[each.centre].key));
    size_t home = std::min_element(squares.begin(), squares.end()) - squares.begin();
    if (nearest.count(j) == 0) {
      while (groups[home].centre != j) home = (home + 1) % groups.size();
    } else {
      for (size_t c = 0; c < groups.size(); ++c) {
        if (c != home) gap.Add(squares[c], squares[home]);
      }
      groups[home].potential += std::exp(keys[j].log_weight) * squares[home];
    }
    groups[home].keys.push_back(j);
  }
  return groups;
}

// How many of `count` centres each cell draws.
std::vector<size_t> Divide(const std::vector<Group>& cells, size_t count, SmallestGap& gap) {
  std::vector<size_t> centres(cells.size(), 1);
  std::vector<bool> full(cells.size());
  Vector share(cells.size());
  for (bool again = true; again;) {
    double left = static_cast<double>(count - cells.size());
    double sum = 0;
    for (size_t c = 0; c < cells.size(); ++c) {
      (full[c] ? left : sum) += full[c] ? 1.0 - cells[c].keys.size() : cells[c].potential;
    }
    again = false;
    for (size_t c = 0; c < cells.size(); ++c) {
      const double most = static_cast<double>(cells[c].keys.size()) - 1;
      share[c] = full[c] ? most : left * cells[c].potential / sum;
      if (share[c] <= most) continue;
      gap.Add(share[c], most);
      full[c] = again = true;
    }
  }
  size_t left = count;
  std::vector<std::pair<double, size_t>> remainders;  // negative, to sort
  for (size_t c = 0; c < cells.size(); ++c) {
    centres[c] = 1 + static_cast<size_t>(share[c]);
    left -= centres[c];
    remainders.emplace_back(std::floor(share[c]) - share[c], c);
  }
  std::sort(remainders.begin(), remainders.end());
  for (size_t i = 0; i < left; ++i) ++centres[remainders[i].second];
  // The last remainder that gets a centre, and the next, relative to the largest share.
  const double largest = *std::max_element(share.begin(), share.end());
  if (left > 0 && left < remainders.size()) {
    gap.Add(largest, largest - (remainders[left].first - remainders[left - 1].first));
  }
  return centres;
}

Key Mean(const Keys& keys, const std::vector<size_t>& group) {
  Key mean = {.key = Vector(keys[0].key.size()), .value = Vector(keys[0].key.size())};
  double weight = 0;
  for (const size_t j : group) {
    const double w = std::exp(keys[j].log_weight);
    for (size_t d = 0; d < keys[j].key.size(); ++d) {
      mean.key[d] += w * keys[j].key[d];
      mean.value[d] += w * keys[j].value[d];
    }
    weight += w;
  }
  for (double& number : mean.key) number /= weight;
  for (double& number : mean.value) number /= weight;
  mean.log_weight = std::log(weight);
  return mean;
}

Keys Merged(const Keys& keys, size_t count, uint64_t seed, uint64_t stream, SmallestGap& gap) {
  std::vector<size_t> all(keys.size());
  std::iota(all.begin(), all.end(), 0);
  const size_t coarse = std::min(count, (keys.size() + 127) / 128);
  const std::vector<Group> cells = Spread(keys, all, coarse, {}, seed, stream, gap);
  const std::vector<size_t> centres = Divide(cells, count, gap);
  Keys merged;
  for (size_t c = 0; c < cells.size(); ++c) {
    for (const Group& group :
         Spread(keys, cells[c].keys, centres[c], cells[c].centre, seed, stream, gap)) {
      merged.push_back(Mean(keys, group.keys));
    }
  }
  return merged;
}

}  // namespace

double Square(const Vector& a, const Vector& b) {
  double square = 0;
  for (size_t i = 0; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return square;
}

Keys ChooseKeys(const Keys& keys, size_t count, MemoryPolicy policy, uint64_t seed, uint64_t stream,
                SmallestGap& gap) {
  switch (policy) {
    case MemoryPolicy::kMerge:
      return Merged(keys, count, seed, stream, gap);
    case MemoryPolicy::kHeavy:
      return Heaviest(keys, count, gap);
    case MemoryPolicy::kSample:
      return Sampled(keys, count, seed, stream, gap);
  }
  return {};
}

}  // namespace chorale::reference
