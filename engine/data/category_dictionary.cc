#include "engine/data/category_dictionary.h"

#include <algorithm>

namespace chorale {

CategoryDictionary CanonicalDictionary(const Column& column) {
  std::vector<bool> occurs(column.categories.size(), false);
  for (const int32_t code : column.codes) {
    if (code != kMissingCode) occurs[code] = true;
  }
  std::vector<int32_t> used;
  for (size_t i = 0; i < occurs.size(); ++i) {
    if (occurs[i]) used.push_back(static_cast<int32_t>(i));
  }
  std::sort(used.begin(), used.end(),
            [&](int32_t a, int32_t b) { return column.categories[a] < column.categories[b]; });

  CategoryDictionary dictionary;
  dictionary.renumber.assign(column.categories.size(), kMissingCode);
  dictionary.categories.reserve(used.size());
  for (size_t place = 0; place < used.size(); ++place) {
    dictionary.renumber[used[place]] = static_cast<int32_t>(place);
    dictionary.categories.push_back(column.categories[used[place]]);
  }
  return dictionary;
}

}  // namespace chorale
