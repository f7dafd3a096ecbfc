// Finds the categories of a context that a request names.
#ifndef CHORALE_ENGINE_DATA_CATEGORY_LOOKUP_H_
#define CHORALE_ENGINE_DATA_CATEGORY_LOOKUP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace chorale {

// Texts that look equal are equal (base/normal_text.h), but a category is first of all the one with
// the same bytes: a context may have been registered with several that look equal. Where all are
// words for true and false (base/truth_word.h), one at most for each, any such word is found by its
// truth value: tools write TRUE, True, true and 1 for the same. Used by one thread.
class CategoryLookup {
 public:
  static constexpr int64_t kUnknown = -1;

  // `categories` are distinct and sorted by bytes, and must outlive the lookup.
  explicit CategoryLookup(absl::Span<const std::string> categories) : categories_(categories) {}

  // The place of a category, or kUnknown. Time: about a scan of its bytes, however long it is.
  int64_t Find(const std::string& category);

 private:
  // By truth value; kUnknown where there is none.
  using TruthPlaces = std::array<int64_t, 2>;
  TruthPlaces FindTruthPlaces() const;

  const absl::Span<const std::string> categories_;
  // By normal form, the first of each; made when the first category is not found by its bytes.
  absl::flat_hash_map<std::string, int64_t> by_normal_text_;
  std::optional<TruthPlaces> by_truth_;  // made with it
  size_t longest_ = 0;                   // bytes of a text that may be found; made with it
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_CATEGORY_LOOKUP_H_
