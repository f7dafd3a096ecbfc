// The rows of the table whose keys the K/V heads of a memory set keep, for the policies that choose
// keys of rows (engine/backend/memory_plan.h).
#ifndef CHORALE_ENGINE_BACKEND_HOST_KEY_ROWS_H_
#define CHORALE_ENGINE_BACKEND_HOST_KEY_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace chorale {

// The keys of a head are those of its set, in their order, then those of the segment's rows.
//
// Thread contract: the engine thread calls BeginSegment. Load and Keep may be called concurrently
// for different heads.
class KeyRows {
 public:
  struct Sizes {
    int64_t layers = 0;
    int64_t heads = 0;           // Hkv
    int64_t set_keys = 0;        // M
    int64_t most_keys = 0;       // of a set and a segment
    int64_t measuring_rows = 0;  // R
  };
  explicit KeyRows(const Sizes& sizes);

  // `set_keys` is M, or fewer while the set is not full. `rows` are the segment's rows of the
  // table. `measuring_index` contains, for each row of the table, its index among the measuring
  // rows, or -1. Both outlive the segment.
  void BeginSegment(int64_t set_keys, absl::Span<const int32_t> rows,
                    absl::Span<const int32_t> measuring_index);

  // Determines the rows of the keys of a head, and the hidden keys of the measuring rows.
  void Load(int64_t layer, int64_t head);
  // After Load: the row of each key of a head.
  absl::Span<const int32_t> Rows(int64_t head) const {
    return {key_rows_.data() + head * keys(), static_cast<size_t>(keys())};
  }
  // After Load of all heads: the key of the row itself, or -1, [R, Hkv].
  absl::Span<const int32_t> hidden_keys() const { return hidden_keys_; }

  // The head's new set has these keys. REQUIRES: there are at most M.
  void Keep(int64_t layer, int64_t head, absl::Span<const int32_t> kept);

 private:
  int64_t keys() const { return before_ + static_cast<int64_t>(segment_rows_.size()); }
  int32_t* SetRows(int64_t layer, int64_t head) {
    return set_rows_.data() + (layer * sizes_.heads + head) * sizes_.set_keys;
  }

  const Sizes sizes_;
  int64_t before_ = 0;  // keys of the set so far
  absl::Span<const int32_t> segment_rows_;
  absl::Span<const int32_t> measuring_index_;
  std::vector<int32_t> set_rows_;     // [L, Hkv, M]
  std::vector<int32_t> key_rows_;     // [Hkv, keys]
  std::vector<int32_t> hidden_keys_;  // [R, Hkv]
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_HOST_KEY_ROWS_H_
