#include "engine/data/category_lookup.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(CategoryLookupTest, FindsWhatLooksEqual) {
  const std::vector<std::string> categories = {"Gr\u00F6\u00DFe", "red", "two words"};
  CategoryLookup lookup(categories);
  EXPECT_EQ(lookup.Find("red"), 1);
  EXPECT_EQ(lookup.Find("Gro\u0308\u00DFe"), 0);
  EXPECT_EQ(lookup.Find("\u00A0red "), 1);
  EXPECT_EQ(lookup.Find("two\u2009words"), 2);
  for (const char* unknown : {"blue", "Red", "re d", "", "Groe"}) {
    EXPECT_EQ(lookup.Find(unknown), CategoryLookup::kUnknown) << unknown;
  }
  EXPECT_EQ(lookup.Find(std::string(1 << 20, 'x')), CategoryLookup::kUnknown);
}

// Registered before texts were compared by their normal form, or by a client that does not.
TEST(CategoryLookupTest, TheSameBytesComeFirst) {
  const std::vector<std::string> categories = {"a  b", "a b", "a\u00A0b", "c  d"};
  CategoryLookup lookup(categories);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(lookup.Find(categories[i]), i);
  EXPECT_EQ(lookup.Find("c d"), 3);
}

TEST(CategoryLookupTest, NoCategories) {
  CategoryLookup lookup({});
  EXPECT_EQ(lookup.Find("a"), CategoryLookup::kUnknown);
}

}  // namespace
}  // namespace chorale
