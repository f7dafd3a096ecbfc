// Finds the categories of a context that a request refers to.
#ifndef CHORALE_ENGINE_DATA_CATEGORY_LOOKUP_H_
#define CHORALE_ENGINE_DATA_CATEGORY_LOOKUP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace chorale {

// A category with the same bytes has precedence over a category with the same normal form
// (base/normal_text.h): a context may have several categories with one normal form. If all
// categories are words for true and false (base/truth_word.h), at most one word for each, Find also
// matches any other such word by its truth value, since tools write TRUE, True, true and 1 for the
// same value. A number also matches the first category that is an equal number without a leading
// zero (IsPlainNumber in base/number_text.h), since tools write 3 and 3.0 for the same value.
//
// Created once per context, so that the cost of a request depends only on its own texts. Immutable.
class CategoryLookup {
 public:
  static constexpr int64_t kUnknown = -1;

  CategoryLookup() = default;
  // REQUIRES: `categories` are distinct and sorted by bytes.
  explicit CategoryLookup(std::vector<std::string> categories);

  const std::vector<std::string>& categories() const { return categories_; }

  // Whether Find can match numbers or words for truth values in any notation.
  bool has_numbers() const { return !by_number_.empty() || by_truth_[0] + by_truth_[1] > -2; }

  // The index of a category, or kUnknown. Takes about as long as a scan of the bytes of `category`.
  int64_t Find(const std::string& category) const;

 private:
  // Indices by truth value; kUnknown for a value without a category.
  using TruthPlaces = std::array<int64_t, 2>;

  // Returns kUnknown if no category has these bytes.
  int64_t FindBytes(const std::string& text) const;

  std::vector<std::string> categories_;
  // For categories that differ from their normal form: the normal form, and the index of its first
  // category.
  absl::flat_hash_map<std::string, int64_t> by_normal_text_;
  absl::flat_hash_map<double, int64_t> by_number_;  // the first category with this value
  TruthPlaces by_truth_ = {kUnknown, kUnknown};
  size_t longest_ = 0;  // bytes of the longest normal form that Find can match
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_CATEGORY_LOOKUP_H_
