#include "engine/data/category_lookup.h"

#include <algorithm>
#include <utility>

#include "base/normal_text.h"
#include "base/truth_word.h"

namespace chorale {

CategoryLookup::TruthPlaces CategoryLookup::FindTruthPlaces() const {
  constexpr TruthPlaces kNone = {kUnknown, kUnknown};
  TruthPlaces places = kNone;
  for (size_t i = 0; i < categories_.size(); ++i) {
    const std::optional<bool> truth = TruthOfWord(NormalText(categories_[i]));
    if (!truth.has_value() || places[*truth ? 1 : 0] != kUnknown) return kNone;
    places[*truth ? 1 : 0] = static_cast<int64_t>(i);
  }
  return places;
}

int64_t CategoryLookup::Find(const std::string& category) {
  const auto* const place = std::lower_bound(categories_.begin(), categories_.end(), category);
  if (place != categories_.end() && *place == category) return place - categories_.begin();
  if (!by_truth_.has_value()) {
    longest_ = kLongestTruthWord;
    for (size_t i = 0; i < categories_.size(); ++i) {
      std::string form = NormalText(categories_[i]);
      longest_ = std::max(longest_, form.size());
      by_normal_text_.try_emplace(std::move(form), static_cast<int64_t>(i));
    }
    by_truth_ = FindTruthPlaces();
  }
  const std::optional<std::string> text = NormalTextWithin(category, longest_);
  if (!text.has_value()) return kUnknown;
  const auto found = by_normal_text_.find(*text);
  if (found != by_normal_text_.end()) return found->second;
  const std::optional<bool> truth = TruthOfWord(*text);
  return truth.has_value() ? (*by_truth_)[*truth ? 1 : 0] : kUnknown;
}

}  // namespace chorale
