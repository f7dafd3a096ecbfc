#include "engine/session/path_rows.h"

#include <algorithm>

#include "kernels/ops/random.h"

namespace chorale {

PathRows::PathRows(const std::vector<int32_t>& known, int64_t query_rows)
    : known_(static_cast<int64_t>(known.size())), rows_(known), unknown_index_(query_rows, 0) {
  for (const int32_t row : known) unknown_index_[row] = -1;
  int64_t unknown = 0;
  for (int64_t row = 0; row < query_rows; ++row) {
    if (unknown_index_[row] < 0) continue;
    unknown_index_[row] = unknown++;
    rows_.push_back(static_cast<int32_t>(row));
  }
}

std::vector<int32_t> PathRows::GivenOrder(int64_t paths) const {
  std::vector<int32_t> order;
  if (std::is_sorted(rows_.begin(), rows_.end())) return order;
  order.reserve(paths * rows_.size());
  for (int64_t p = 0; p < paths; ++p) order.insert(order.end(), rows_.begin(), rows_.end());
  return order;
}

std::vector<int32_t> PathRows::RandomOrders(uint64_t seed, int64_t first_path,
                                            int64_t paths) const {
  std::vector<int32_t> orders;
  orders.reserve(paths * rows_.size());
  std::vector<int32_t> order(unknown());
  for (int64_t p = 0; p < paths; ++p) {
    kernels::DrawOrder(seed, static_cast<uint64_t>(first_path + p), unknown(), order.data());
    orders.insert(orders.end(), rows_.begin(), rows_.begin() + known_);
    for (const int32_t i : order) orders.push_back(rows_[known_ + i]);
  }
  return orders;
}

std::vector<int32_t> PathRows::PredictionOrders(int64_t first, int64_t paths) const {
  std::vector<int32_t> orders;
  orders.reserve(paths * (known_ + 1));
  for (int64_t p = 0; p < paths; ++p) {
    orders.insert(orders.end(), rows_.begin(), rows_.begin() + known_);
    orders.push_back(rows_[known_ + first + p]);
  }
  return orders;
}

}  // namespace chorale
