// Tables for tests, as messages.
#ifndef CHORALE_TESTS_SERVER_TABLES_H_
#define CHORALE_TESTS_SERVER_TABLES_H_

#include <string>
#include <vector>

#include "chorale/v1/chorale.pb.h"

namespace chorale {

inline v1::Column* AddNumeric(v1::Table* table, const std::string& name,
                              const std::vector<double>& values) {
  v1::Column* column = table->add_columns();
  column->set_name(name);
  column->mutable_numeric()->mutable_values()->Add(values.begin(), values.end());
  return column;
}

inline v1::Column* AddCategorical(v1::Table* table, const std::string& name,
                                  const std::vector<std::string>& categories,
                                  const std::vector<int32_t>& codes) {
  v1::Column* column = table->add_columns();
  column->set_name(name);
  for (const std::string& category : categories) {
    column->mutable_categorical()->add_categories(category);
  }
  column->mutable_categorical()->mutable_codes()->Add(codes.begin(), codes.end());
  return column;
}

inline v1::Column* AddStrings(v1::Table* table, const std::string& name,
                              const std::vector<std::string>& values) {
  v1::Column* column = table->add_columns();
  column->set_name(name);
  for (const std::string& value : values) column->mutable_strings()->add_values(value);
  return column;
}

// Three rows of a numeric and a categorical column.
inline v1::Table SmallTable() {
  v1::Table table;
  AddNumeric(&table, "age", {1, 2, 3});
  AddCategorical(&table, "color", {"red", "blue"}, {0, 1, -1});
  return table;
}

}  // namespace chorale

#endif  // CHORALE_TESTS_SERVER_TABLES_H_
