// Columns for tests.
#ifndef CHORALE_TESTS_ENGINE_DATA_MAKE_COLUMN_H_
#define CHORALE_TESTS_ENGINE_DATA_MAKE_COLUMN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/table.h"

namespace chorale {

inline Column Numbers(std::string name, std::vector<double> numbers) {
  Column column;
  column.name = std::move(name);
  column.numbers = std::move(numbers);
  return column;
}

inline Column Categories(std::string name, std::vector<std::string> categories,
                         std::vector<int32_t> codes) {
  Column column;
  column.name = std::move(name);
  column.type = ColumnType::kCategorical;
  column.categories = std::move(categories);
  column.codes = std::move(codes);
  return column;
}

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_DATA_MAKE_COLUMN_H_
