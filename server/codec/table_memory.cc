#include "server/codec/table_memory.h"

namespace chorale {

int64_t TableBytes(const Table& table) {
  size_t bytes = 0;
  for (const Column& column : table.columns) {
    bytes += column.name.size() + column.numbers.size() * sizeof(double) +
             column.codes.size() * sizeof(int32_t);
    for (const std::string& category : column.categories) bytes += category.size();
  }
  return static_cast<int64_t>(bytes);
}

int64_t TableMemoryBytes(const Table& table) {
  size_t overhead = 0;
  for (const Column& column : table.columns) {
    overhead += sizeof(Column) + column.categories.size() * kCategoryOverhead;
    for (const std::string& category : column.categories) overhead += category.size();
  }
  return TableBytes(table) + static_cast<int64_t>(overhead);
}

}  // namespace chorale
