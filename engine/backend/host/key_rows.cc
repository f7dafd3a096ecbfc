#include "engine/backend/host/key_rows.h"

#include <algorithm>

namespace chorale {

KeyRows::KeyRows(const Sizes& sizes)
    : sizes_(sizes),
      set_rows_(sizes.layers * sizes.heads * sizes.set_keys),
      key_rows_(sizes.heads * sizes.most_keys),
      hidden_keys_(sizes.measuring_rows * sizes.heads) {}

void KeyRows::BeginSegment(int64_t set_keys, absl::Span<const int32_t> rows,
                           absl::Span<const int32_t> measuring_index) {
  before_ = set_keys;
  segment_rows_ = rows;
  measuring_index_ = measuring_index;
}

void KeyRows::Load(int64_t layer, int64_t head) {
  int32_t* key_rows = key_rows_.data() + head * keys();
  std::copy_n(SetRows(layer, head), before_, key_rows);
  std::copy(segment_rows_.begin(), segment_rows_.end(), key_rows + before_);
  for (int64_t row = 0; row < sizes_.measuring_rows; ++row) {
    hidden_keys_[row * sizes_.heads + head] = -1;
  }
  for (int64_t key = 0; key < keys(); ++key) {
    const int32_t row = measuring_index_[key_rows[key]];
    if (row >= 0) hidden_keys_[row * sizes_.heads + head] = static_cast<int32_t>(key);
  }
}

void KeyRows::Keep(int64_t layer, int64_t head, absl::Span<const int32_t> kept) {
  const int32_t* key_rows = key_rows_.data() + head * keys();
  std::transform(kept.begin(), kept.end(), SetRows(layer, head),
                 [key_rows](int32_t key) { return key_rows[key]; });
}

}  // namespace chorale
