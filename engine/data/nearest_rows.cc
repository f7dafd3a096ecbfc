#include "engine/data/nearest_rows.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "base/require.h"

namespace chorale {
namespace {

// Distances are computed for a block of rows at a time, whose features are transposed, so that the
// loop over the rows of the block is vectorised.
constexpr int64_t kBlock = 64;

class RowBlock {
 public:
  // Rows [first, first + kBlock) of the table, as far as it has them.
  void Load(const FeatureMatrix& table, int64_t first) {
    rows_ = std::min(kBlock, table.rows - first);
    columns_.resize(table.features);
    for (int64_t row = 0; row < rows_; ++row) {
      const float* const x = table.x.data() + (first + row) * table.features;
      for (int64_t i = 0; i < table.features; ++i) columns_[i][row] = x[i];
    }
  }

  // The squared distances of the rows to a query row. Those beyond the rows of the table have no
  // meaning.
  std::array<float, kBlock> Distances(const float* query_row) const {
    std::array<float, kBlock> sums = {};
    for (size_t i = 0; i < columns_.size(); ++i) {
      for (int64_t row = 0; row < kBlock; ++row) {
        const float difference = columns_[i][row] - query_row[i];
        sums[row] += difference * difference;
      }
    }
    return sums;
  }

  int64_t rows() const { return rows_; }

 private:
  int64_t rows_ = 0;
  std::vector<std::array<float, kBlock>> columns_;  // [features]
};

// The nearest rows to one query row among those that were offered, at most `capacity`.
class NearestOfQuery {
 public:
  explicit NearestOfQuery(int64_t capacity) : capacity_(capacity) { heap_.reserve(capacity); }

  // REQUIRES: rows are offered in ascending order.
  void Offer(float distance, int32_t row) {
    if (std::ssize(heap_) == capacity_) {
      if (!(distance < heap_.front().first)) return;
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
    }
    heap_.push_back({distance, row});
    std::push_heap(heap_.begin(), heap_.end());
  }

  const std::vector<std::pair<float, int32_t>>& rows() const { return heap_; }

 private:
  const int64_t capacity_;
  std::vector<std::pair<float, int32_t>> heap_;  // the farthest first
};

// Adds rows that are not chosen, at random, until `count` are.
void ChooseOthers(int64_t count, uint64_t seed, std::vector<bool>* chosen) {
  std::mt19937_64 random(seed);
  std::vector<std::pair<uint64_t, int32_t>> others;
  for (size_t row = 0; row < chosen->size(); ++row) {
    // Drawn for every row, so that the order does not depend on the query rows.
    const uint64_t rank = random();
    if (!(*chosen)[row]) others.push_back({rank, static_cast<int32_t>(row)});
  }
  const int64_t missing = count - (std::ssize(*chosen) - std::ssize(others));
  std::nth_element(others.begin(), others.begin() + missing, others.end());
  for (int64_t i = 0; i < missing; ++i) (*chosen)[others[i].second] = true;
}

}  // namespace

std::vector<int32_t> NearestRows(const FeatureMatrix& table, const FeatureMatrix& query_rows,
                                 int64_t count, uint64_t seed) {
  Require(query_rows.rows <= count && count <= table.rows, "each query row has a nearest row");
  Require(query_rows.features == table.features, "rows have the features of the table");
  std::vector<NearestOfQuery> nearest;  // of each query row
  for (int64_t i = 0; i < query_rows.rows; ++i) nearest.emplace_back(count / query_rows.rows);
  RowBlock block;
  for (int64_t first = 0; first < table.rows; first += kBlock) {
    block.Load(table, first);
    for (int64_t query = 0; query < query_rows.rows; ++query) {
      const auto distances = block.Distances(query_rows.x.data() + query * query_rows.features);
      for (int64_t row = 0; row < block.rows(); ++row) {
        nearest[query].Offer(distances[row], static_cast<int32_t>(first + row));
      }
    }
  }
  std::vector<bool> chosen(table.rows);
  for (const NearestOfQuery& of_query : nearest) {
    for (const auto& [distance, row] : of_query.rows()) chosen[row] = true;
  }
  ChooseOthers(count, seed, &chosen);
  std::vector<int32_t> rows;
  rows.reserve(count);
  for (int64_t row = 0; row < table.rows; ++row) {
    if (chosen[row]) rows.push_back(static_cast<int32_t>(row));
  }
  return rows;
}

}  // namespace chorale
