// A queue in which the items of a client do not wait for all items of another client.
#ifndef CHORALE_BASE_FAIR_QUEUE_H_
#define CHORALE_BASE_FAIR_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace chorale {

// Serves clients round-robin: Pop removes the oldest item of the client whose turn it is.
//
// Thread-compatible.
template <typename Item>
class FairQueue {
 public:
  void Push(const std::string& client, Item item) {
    std::deque<Item>& items = clients_[client];
    if (items.empty()) turns_.push_back(client);
    items.push_back(std::move(item));
    ++size_;
  }

  // REQUIRES: not empty.
  Item Pop() { return Take(turns_.begin()); }

  // Like Pop, but skips the clients for which `may_take(client)` is false; they keep their turns.
  // Returns nullopt if it is false for all clients.
  template <typename Predicate>
  std::optional<Item> PopIf(Predicate may_take) {
    const auto turn = std::find_if(turns_.begin(), turns_.end(), may_take);
    if (turn == turns_.end()) return std::nullopt;
    return Take(turn);
  }

  bool empty() const { return size_ == 0; }
  int64_t size() const { return size_; }
  int64_t size_of(const std::string& client) const {
    const auto found = clients_.find(client);
    return found == clients_.end() ? 0 : static_cast<int64_t>(found->second.size());
  }

 private:
  Item Take(std::deque<std::string>::iterator turn) {
    std::string client = std::move(*turn);
    turns_.erase(turn);
    const auto found = clients_.find(client);
    std::deque<Item>& items = found->second;
    Item item = std::move(items.front());
    items.pop_front();
    --size_;
    if (items.empty()) {
      clients_.erase(found);
    } else {
      turns_.push_back(std::move(client));
    }
    return item;
  }

  absl::flat_hash_map<std::string, std::deque<Item>> clients_;  // none is empty
  std::deque<std::string> turns_;                               // each client once
  int64_t size_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_BASE_FAIR_QUEUE_H_
