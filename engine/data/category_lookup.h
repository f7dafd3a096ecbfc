// Finds the categories of a context that a request names.
#ifndef CHORALE_ENGINE_DATA_CATEGORY_LOOKUP_H_
#define CHORALE_ENGINE_DATA_CATEGORY_LOOKUP_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace chorale {

// Texts that look equal are equal (base/normal_text.h), but a category is first of all the one with
// the same bytes: a context may have been registered with several that look equal. Used by one
// thread.
class CategoryLookup {
 public:
  static constexpr int64_t kUnknown = -1;

  // `categories` are distinct and sorted by bytes, and must outlive the lookup.
  explicit CategoryLookup(absl::Span<const std::string> categories) : categories_(categories) {}

  // The place of a category, or kUnknown.
  int64_t Find(const std::string& category);

 private:
  const absl::Span<const std::string> categories_;
  // By normal form, the first of each; made when the first category is not found by its bytes.
  absl::flat_hash_map<std::string, int64_t> by_normal_text_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_CATEGORY_LOOKUP_H_
