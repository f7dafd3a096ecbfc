#ifndef CHORALE_TESTS_ENGINE_STORE_KV_FROM_H_
#define CHORALE_TESTS_ENGINE_STORE_KV_FROM_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// A ContextFiles::KvSource that gives the bytes of a vector.
class KvFrom {
 public:
  explicit KvFrom(std::vector<char> kv) : kv_(std::move(kv)) {}

  bool operator()(int64_t offset, absl::Span<char> to) const {
    std::copy_n(kv_.begin() + offset, to.size(), to.begin());
    return true;
  }

 private:
  std::vector<char> kv_;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_STORE_KV_FROM_H_
