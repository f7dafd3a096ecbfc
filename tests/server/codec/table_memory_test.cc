#include "server/codec/table_memory.h"

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(TableMemoryTest, CountsNamesCellsAndCategories) {
  Table table;
  EXPECT_EQ(TableBytes(table), 0);
  EXPECT_EQ(TableMemoryBytes(table), 0);
  Column area;
  area.name = "area";
  area.numbers = {1, 2, 3};
  Column town;
  town.name = "town";
  town.type = ColumnType::kCategorical;
  town.categories = {"Rome", "Oslo!"};
  town.codes = {0, 1, kMissingCode};
  table.columns = {area, town};
  EXPECT_EQ(TableBytes(table), 4 + 3 * 8 + 4 + 9 + 3 * 4);
  // An index has another copy of the categories.
  EXPECT_EQ(TableMemoryBytes(table), TableBytes(table) + 9 +
                                         static_cast<int64_t>(2 * sizeof(Column)) +
                                         2 * static_cast<int64_t>(kCategoryOverhead));
}

}  // namespace
}  // namespace chorale
