// The categories of a column in an order that does not depend on the user's numbering.
#ifndef CHORALE_ENGINE_DATA_CATEGORY_DICTIONARY_H_
#define CHORALE_ENGINE_DATA_CATEGORY_DICTIONARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/table.h"

namespace chorale {

struct CategoryDictionary {
  std::vector<std::string> categories;  // the categories that occur in the column, sorted by bytes
  std::vector<int32_t> renumber;        // [column.categories]: index into `categories`; -1: unused
};

// REQUIRES: the column is categorical, its categories distinct, its codes in range.
CategoryDictionary CanonicalDictionary(const Column& column);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_CATEGORY_DICTIONARY_H_
