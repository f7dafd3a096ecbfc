// Finds the categories of a context that a request names.
#ifndef CHORALE_ENGINE_DATA_CATEGORY_LOOKUP_H_
#define CHORALE_ENGINE_DATA_CATEGORY_LOOKUP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace chorale {

// Texts that look equal are equal (base/normal_text.h), but a category is first of all the one with
// the same bytes: a context may have been registered with several that look equal. Where all are
// words for true and false (base/truth_word.h), one at most for each, any such word is found by its
// truth value: tools write TRUE, True, true and 1 for the same.
//
// Made once for a context, so that a request costs what its own texts cost. Immutable.
class CategoryLookup {
 public:
  static constexpr int64_t kUnknown = -1;

  CategoryLookup() = default;
  // REQUIRES: `categories` are distinct and sorted by bytes.
  explicit CategoryLookup(std::vector<std::string> categories);

  const std::vector<std::string>& categories() const { return categories_; }

  // The place of a category, or kUnknown. Time: about a scan of its bytes, however long it is.
  int64_t Find(const std::string& category) const;

 private:
  // By truth value; kUnknown where there is none.
  using TruthPlaces = std::array<int64_t, 2>;

  // kUnknown if none has these bytes.
  int64_t FindBytes(const std::string& text) const;

  std::vector<std::string> categories_;
  // Of those that are not their own normal forms: these, and the first place of each.
  absl::flat_hash_map<std::string, int64_t> by_normal_text_;
  TruthPlaces by_truth_ = {kUnknown, kUnknown};
  size_t longest_ = 0;  // bytes of a normal form that may be found
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_CATEGORY_LOOKUP_H_
