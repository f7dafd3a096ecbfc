#include "tests/engine/backend/reference_memory.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/ops/random.h"
#include "tests/engine/backend/reference_choice.h"
#include "tests/engine/backend/reference_math.h"
#include "tests/engine/backend/reference_row_encoder.h"

namespace chorale::reference {
namespace {

Vector Part(const Vector& all, int64_t begin, int64_t count) {
  return Vector(all.begin() + begin, all.begin() + begin + count);
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

class ReducedEncoding {
 public:
  ReducedEncoding(const Model& model, const FeatureMatrix& x, const std::vector<float>& y,
                  const MemorySet& memory, uint64_t seed, const std::vector<int64_t>& append_starts)
      : model_(model),
        config_(model.config),
        memory_(memory),
        seed_(seed),
        y_(y),
        encodings_(EncodeContextRows(model, x, y, append_starts)),
        block_ends_(append_starts),
        sets_(config_.n_layers, std::vector<Keys>(config_.n_kv_heads)) {
    block_ends_.push_back(x.rows);
    if (memory.policy == MemoryPolicy::kMerge) return;
    measuring_.resize(x.rows);
    kernels::DrawOrder(seed, 1, x.rows, measuring_.data());
    measuring_.erase(measuring_.begin(), measuring_.end() - std::min<int64_t>(x.rows, 1'024));
  }

  ReducedContext Run() {
    const int64_t half = (memory_.rows + 1) / 2;
    const int64_t size = std::max<int64_t>(1'024, (half + 63) / 64 * 64);
    int64_t begin = 0;
    for (size_t block = 0; block < block_ends_.size(); ++block) {
      const int64_t rows = block_ends_[block] - begin;
      std::vector<int32_t> order(rows);
      kernels::DrawOrder(seed_, block == 0 ? 0 : 1 + block, rows, order.data());
      for (int32_t& row : order) row += static_cast<int32_t>(begin);
      for (int64_t first = 0; first < rows; first += size, ++segment_) {
        RunSegment({order.begin() + first, order.begin() + std::min(first + size, rows)});
      }
      begin = block_ends_[block];
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
    keys = ChooseKeys(keys, count, memory_.policy, seed_, stream, gap_);
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
  std::vector<int64_t> block_ends_;
  std::vector<int32_t> measuring_;
  std::vector<std::vector<Keys>> sets_;  // [L][Hkv]
  int64_t segment_ = 0;
  SmallestGap gap_;
};

}  // namespace

ReducedContext EncodeReducedContext(const Model& model, const FeatureMatrix& x,
                                    const std::vector<float>& y, const MemorySet& memory,
                                    uint64_t seed, const std::vector<int64_t>& append_starts) {
  return ReducedEncoding(model, x, y, memory, seed, append_starts).Run();
}

}  // namespace chorale::reference
