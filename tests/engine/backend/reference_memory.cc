#include "tests/engine/backend/reference_memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernels/ops/random.h"
#include "tests/engine/backend/reference_math.h"
#include "tests/engine/backend/reference_row_encoder.h"

namespace chorale::reference {
namespace {

// A key of one K/V head.
struct Key {
  Vector key;    // [Dh]
  Vector value;  // [Dh]
  double log_weight = 0;
  int32_t row = -1;  // of the table; of a merged key, no row
  double importance = 0;
};
using Keys = std::vector<Key>;

Vector Part(const Vector& all, int64_t begin, int64_t count) {
  return Vector(all.begin() + begin, all.begin() + begin + count);
}

double Square(const Vector& a, const Vector& b) {
  double square = 0;
  for (size_t i = 0; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return square;
}

// The attention of a query of one head to all keys but that of row `hidden`.
struct Attended {
  Vector attention;  // of each key
  Vector out;
};
Attended Attend(const Vector& q, const Keys& keys, int32_t hidden) {
  Vector scores;
  for (const Key& key : keys) {
    double dot = 0;
    for (size_t d = 0; d < q.size(); ++d) dot += q[d] * key.key[d];
    const bool visible = hidden < 0 || key.row != hidden;
    scores.push_back(visible ? dot / std::sqrt(static_cast<double>(q.size())) + key.log_weight
                             : -HUGE_VAL);
  }
  const double lse = LogSumExp(scores);
  Attended attended = {.out = Vector(q.size())};
  for (size_t j = 0; j < keys.size(); ++j) {
    attended.attention.push_back(std::exp(scores[j] - lse));
    for (size_t d = 0; d < q.size(); ++d) {
      attended.out[d] += attended.attention[j] * keys[j].value[d];
    }
  }
  return attended;
}

// ---- the policies --------------------------------------------------------------------------

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

// The smallest relative difference between numbers by which keys were chosen.
class SmallestGap {
 public:
  void Add(double larger, double smaller) {
    gap_ = std::min(gap_, larger > 0 ? (larger - smaller) / larger : 0.0);
  }
  double get() const { return gap_; }

 private:
  double gap_ = 1;
};

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

Keys Merged(const Keys& keys, size_t count, uint64_t seed, uint64_t stream, SmallestGap& gap) {
  std::vector<size_t> centres;
  Vector nearest(keys.size(), 1.0);  // squared distances; so far all alike
  while (centres.size() < count) {
    std::vector<std::pair<double, size_t>> priorities;  // negative, to sort
    for (size_t j = 0; j < keys.size(); ++j) {
      if (std::count(centres.begin(), centres.end(), j) > 0) continue;
      const double word = kernels::RandomBlock(seed, stream << 32 | centres.size() / 8, j / 4,
                                               kernels::RandomStream::kCentre)[j % 4];
      const double value = std::exp(keys[j].log_weight) * std::max(nearest[j], 1e-30);
      priorities.emplace_back(value / std::log(1 - std::ldexp(word + 0.5, -32)), j);
    }
    std::sort(priorities.begin(), priorities.end());
    const size_t drawn = std::min<size_t>(8, count - centres.size());
    if (centres.empty()) nearest.assign(keys.size(), HUGE_VAL);
    for (size_t c = 0; c < drawn; ++c) {
      if (c + 1 < priorities.size()) gap.Add(-priorities[c].first, -priorities[c + 1].first);
      centres.push_back(priorities[c].second);
      for (size_t j = 0; j < keys.size(); ++j) {
        nearest[j] = std::min(nearest[j], Square(keys[j].key, keys[centres.back()].key));
      }
    }
  }
  Keys merged(count);
  Vector weights(count);
  for (size_t j = 0; j < keys.size(); ++j) {
    size_t home = 0;
    const auto own = std::find(centres.begin(), centres.end(), j);
    if (own != centres.end()) {
      home = own - centres.begin();
    } else {
      Vector squares;
      for (const size_t centre : centres) {
        squares.push_back(Square(keys[j].key, keys[centre].key));
        if (squares.back() < squares[home]) home = squares.size() - 1;
      }
      for (size_t c = 0; c < count; ++c) {
        if (c != home) gap.Add(squares[c], squares[home]);
      }
    }
    const double w = std::exp(keys[j].log_weight);
    merged[home].key.resize(keys[j].key.size());
    merged[home].value.resize(keys[j].key.size());
    for (size_t d = 0; d < keys[j].key.size(); ++d) {
      merged[home].key[d] += w * keys[j].key[d];
      merged[home].value[d] += w * keys[j].value[d];
    }
    weights[home] += w;
  }
  for (size_t c = 0; c < count; ++c) {
    for (double& number : merged[c].key) number /= weights[c];
    for (double& number : merged[c].value) number /= weights[c];
    merged[c].log_weight = std::log(weights[c]);
  }
  return merged;
}

// ---- the encoding --------------------------------------------------------------------------

class ReducedEncoding {
 public:
  ReducedEncoding(const Model& model, const FeatureMatrix& x, const std::vector<float>& y,
                  const MemorySet& memory, uint64_t seed)
      : model_(model),
        config_(model.config),
        memory_(memory),
        seed_(seed),
        y_(y),
        encodings_(EncodeRows(model, x, y, x)),
        order_(x.rows),
        sets_(config_.n_layers, std::vector<Keys>(config_.n_kv_heads)) {
    kernels::DrawOrder(seed, 0, x.rows, order_.data());
    if (memory.policy == MemoryPolicy::kMerge) return;
    measuring_.resize(x.rows);
    kernels::DrawOrder(seed, 1, x.rows, measuring_.data());
    measuring_.erase(measuring_.begin(), measuring_.end() - std::min<int64_t>(x.rows, 1'024));
  }

  ReducedContext Run() {
    const auto rows = static_cast<int64_t>(order_.size());
    const int64_t size = std::max<int64_t>(2'048, memory_.rows);
    for (int64_t first = 0; first < rows; first += size, ++segment_) {
      RunSegment({order_.begin() + first, order_.begin() + std::min(first + size, rows)});
    }
    return {.kept = Result(), .smallest_gap = gap_.get()};
  }

 private:
  void RunSegment(const std::vector<int32_t>& rows) {
    Rows x;
    for (const int32_t row : rows) x.push_back(ContextToken(model_, encodings_[row], y_[row]));
    Rows asked;
    if (sets_[0][0].size() + rows.size() > static_cast<size_t>(memory_.rows)) {
      for (const int32_t row : measuring_) asked.push_back(QueryToken(model_, encodings_[row]));
    }
    for (int64_t l = 0; l < config_.n_layers; ++l) {
      const LayerWeights& layer = model_.layers[l];
      std::vector<Keys> keys = sets_[l];
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = MixFeatures(model_, layer, x[i]);
        AddKeys(layer, x[i], rows[i], keys);
      }
      if (l + 1 < config_.n_layers) {
        for (Vector& row : x) row = Pass(layer, row, -1, keys, false);
      }
      for (size_t i = 0; i < asked.size(); ++i) {
        asked[i] = Pass(layer, MixFeatures(model_, layer, asked[i]), measuring_[i], keys, true);
      }
      for (int64_t h = 0; h < config_.n_kv_heads; ++h) sets_[l][h] = Choose(l, h, keys[h]);
    }
  }

  void AddKeys(const LayerWeights& layer, const Vector& x, int32_t row, std::vector<Keys>& keys) {
    const int64_t width = config_.head_dim();
    const Vector k = Linear(layer.wk, {}, x);
    const Vector v = Linear(layer.wv, {}, x);
    for (int64_t h = 0; h < config_.n_kv_heads; ++h) {
      keys[h].push_back(
          {.key = Part(k, h * width, width), .value = Part(v, h * width, width), .row = row});
    }
  }

  // A row from its attention to the end of the layer. A measuring row adds to importance.
  Vector Pass(const LayerWeights& layer, const Vector& x, int32_t hidden, std::vector<Keys>& keys,
              bool measures) {
    const int64_t width = config_.head_dim();
    const Vector q = Linear(layer.wq, {}, x);
    Vector attended;
    for (int64_t h = 0; h < config_.n_heads; ++h) {
      Keys& of_head = keys[h / (config_.n_heads / config_.n_kv_heads)];
      const Attended head = Attend(Part(q, h * width, width), of_head, hidden);
      attended.insert(attended.end(), head.out.begin(), head.out.end());
      for (size_t j = 0; measures && j < of_head.size(); ++j) {
        const double p = head.attention[j];
        const double odds = p / std::max(1 - p, 1e-6);
        of_head[j].importance += odds * odds * Square(head.out, of_head[j].value);
      }
    }
    return FinishLayer(model_, layer, x, attended);
  }

  Keys Choose(int64_t layer, int64_t head, Keys keys) {
    const auto count = static_cast<size_t>(memory_.rows);
    if (keys.size() <= count) return keys;
    const uint64_t stream = (segment_ * config_.n_layers + layer) * config_.n_kv_heads + head;
    switch (memory_.policy) {
      case MemoryPolicy::kMerge:
        return Merged(keys, count, seed_, stream, gap_);
      case MemoryPolicy::kHeavy:
        keys = Heaviest(keys, count, gap_);
        break;
      case MemoryPolicy::kSample:
        keys = Sampled(std::move(keys), count, seed_, stream, gap_);
        break;
    }
    for (Key& key : keys) key.importance = 0;  // measured afresh
    return keys;
  }

  KeyValues Result() const {
    KeyValues result;
    for (const std::vector<Keys>& heads : sets_) {
      Rows keys(memory_.rows), values(memory_.rows), log_weights(memory_.rows);
      for (const Keys& head : heads) {
        for (int64_t j = 0; j < memory_.rows; ++j) {
          keys[j].insert(keys[j].end(), head[j].key.begin(), head[j].key.end());
          values[j].insert(values[j].end(), head[j].value.begin(), head[j].value.end());
          log_weights[j].push_back(head[j].log_weight);
        }
      }
      result.keys.push_back(std::move(keys));
      result.values.push_back(std::move(values));
      result.log_weights.push_back(std::move(log_weights));
    }
    return result;
  }

  const Model& model_;
  const ModelConfig& config_;
  const MemorySet memory_;
  const uint64_t seed_;
  const std::vector<float>& y_;
  const Rows encodings_;
  std::vector<int32_t> order_;
  std::vector<int32_t> measuring_;
  std::vector<std::vector<Keys>> sets_;  // [L][Hkv]
  int64_t segment_ = 0;
  SmallestGap gap_;
};

}  // namespace

ReducedContext EncodeReducedContext(const Model& model, const FeatureMatrix& x,
                                    const std::vector<float>& y, const MemorySet& memory,
                                    uint64_t seed) {
  return ReducedEncoding(model, x, y, memory, seed).Run();
}

}  // namespace chorale::reference
