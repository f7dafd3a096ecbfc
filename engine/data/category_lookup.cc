#include "engine/data/category_lookup.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/normal_text.h"
#include "base/number_text.h"
#include "base/truth_word.h"

namespace chorale {
namespace {

// Longer texts match no category as a number, or as a word for a truth value.
constexpr size_t kLongestNumber = 32;
static_assert(kLongestNumber >= kLongestTruthWord);

}  // namespace

CategoryLookup::CategoryLookup(std::vector<std::string> categories)
    : categories_(std::move(categories)), longest_(kLongestNumber) {
  TruthPlaces places = by_truth_;
  bool truths = true;
  for (size_t i = 0; i < categories_.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    std::string form = NormalText(categories_[i]);
    longest_ = std::max(longest_, form.size());
    const std::optional<bool> truth = TruthOfWord(form);
    truths = truths && truth.has_value() && places[*truth ? 1 : 0] == kUnknown;
    if (truths) places[*truth ? 1 : 0] = place;
    if (IsPlainNumber(form)) by_number_.try_emplace(*ParseNumber(form), place);
    if (form != categories_[i]) by_normal_text_.try_emplace(std::move(form), place);
  }
  if (truths) by_truth_ = places;
}

int64_t CategoryLookup::FindBytes(const std::string& text) const {
  const auto place = std::lower_bound(categories_.begin(), categories_.end(), text);
  return place != categories_.end() && *place == text ? place - categories_.begin() : kUnknown;
}

int64_t CategoryLookup::Find(const std::string& category) const {
  if (const int64_t place = FindBytes(category); place != kUnknown) return place;
  const std::optional<std::string> text = NormalTextWithin(category, longest_);
  if (!text.has_value()) return kUnknown;
  // The first category with this normal form.
  const int64_t same = FindBytes(*text);
  if (const auto found = by_normal_text_.find(*text); found != by_normal_text_.end()) {
    return same == kUnknown ? found->second : std::min(same, found->second);
  }
  if (same != kUnknown) return same;
  if (!by_number_.empty() && IsPlainNumber(*text)) {
    const auto equal = by_number_.find(*ParseNumber(*text));
    if (equal != by_number_.end()) return equal->second;
  }
  const std::optional<bool> truth = TruthOfWord(*text);
  return truth.has_value() ? by_truth_[*truth ? 1 : 0] : kUnknown;
}

}  // namespace chorale
