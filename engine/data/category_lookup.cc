#include "engine/data/category_lookup.h"

#include <algorithm>

#include "base/normal_text.h"

namespace chorale {

int64_t CategoryLookup::Find(const std::string& category) {
  const auto* const place = std::lower_bound(categories_.begin(), categories_.end(), category);
  if (place != categories_.end() && *place == category) return place - categories_.begin();
  if (by_normal_text_.empty()) {
    for (size_t i = 0; i < categories_.size(); ++i) {
      by_normal_text_.try_emplace(NormalText(categories_[i]), static_cast<int64_t>(i));
    }
  }
  const auto found = by_normal_text_.find(NormalText(category));
  return found == by_normal_text_.end() ? kUnknown : found->second;
}

}  // namespace chorale
