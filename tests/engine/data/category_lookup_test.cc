#include "engine/data/category_lookup.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(CategoryLookupTest, FindsWhatLooksEqual) {
  const std::vector<std::string> categories = {"Gr\u00F6\u00DFe", "red", "two words"};
  const CategoryLookup lookup(categories);
  EXPECT_EQ(lookup.Find("red"), 1);
  EXPECT_EQ(lookup.Find("Gro\u0308\u00DFe"), 0);
  EXPECT_EQ(lookup.Find("\u00A0red "), 1);
  EXPECT_EQ(lookup.Find("two\u2009words"), 2);
  for (const char* unknown : {"blue", "Red", "re d", "", "Groe"}) {
    EXPECT_EQ(lookup.Find(unknown), CategoryLookup::kUnknown) << unknown;
  }
  EXPECT_EQ(lookup.Find(std::string(1 << 20, 'x')), CategoryLookup::kUnknown);
}

TEST(CategoryLookupTest, LongTextsAreUnknownUnlessTheyTidyUp) {
  const std::vector<std::string> categories = {"a", "b c"};
  const CategoryLookup lookup(categories);
  std::string marks = "a";
  for (int i = 0; i < 500'000; ++i) marks += "\u0301\u0316";
  EXPECT_EQ(lookup.Find(marks), CategoryLookup::kUnknown);
  EXPECT_EQ(lookup.Find("b" + std::string(1 << 20, ' ') + "c"), 1);
  EXPECT_EQ(lookup.Find("\u1D43"), CategoryLookup::kUnknown);
}

// Registered before texts were compared by their normal form, or by a client that does not.
TEST(CategoryLookupTest, TheSameBytesComeFirst) {
  const std::vector<std::string> categories = {"a  b", "a b", "a\u00A0b", "c  d"};
  const CategoryLookup lookup(categories);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(lookup.Find(categories[i]), i);
  EXPECT_EQ(lookup.Find("c d"), 3);
}

// Tools write 3 and 3.0 for the same number; 03 is a code.
TEST(CategoryLookupTest, EqualNumbersMeet) {
  const CategoryLookup lookup(std::vector<std::string>{"03", "10", "2.50", "3", "x"});
  EXPECT_EQ(lookup.Find("3.0"), 3);
  EXPECT_EQ(lookup.Find("+3"), 3);
  EXPECT_EQ(lookup.Find("03"), 0);
  EXPECT_EQ(lookup.Find("1e1"), 1);
  EXPECT_EQ(lookup.Find("2.5"), 2);
  EXPECT_EQ(lookup.Find("003"), CategoryLookup::kUnknown);
  EXPECT_EQ(lookup.Find("4"), CategoryLookup::kUnknown);
  EXPECT_TRUE(lookup.has_numbers());
  EXPECT_TRUE(CategoryLookup({"no", "yes"}).has_numbers());
  EXPECT_FALSE(CategoryLookup({"03", "x"}).has_numbers());
}

// Excel and R write TRUE, pandas True, JSON true, databases 1, people yes.
TEST(CategoryLookupTest, WordsForTrueAndFalseMeet) {
  for (const std::vector<std::string>& categories : {std::vector<std::string>{"FALSE", "TRUE"},
                                                     {"No", "Yes"},
                                                     {"0", "1"},
                                                     {"0.0", "1.0"},
                                                     {"f", "t"},
                                                     {"False", "y"}}) {
    const CategoryLookup lookup(categories);
    for (const char* word :
         {"true", "TRUE", "True", "t", "T", "yes", "YES", "y", "1", "1.0", " True\u00A0"}) {
      EXPECT_EQ(lookup.Find(word), 1) << categories[1] << " " << word;
    }
    for (const char* word : {"false", "FALSE", "False", "f", "no", "N", "0", "0.0"}) {
      EXPECT_EQ(lookup.Find(word), 0) << categories[0] << " " << word;
    }
    for (const char* word : {"", "2", "maybe", "-1", "tr", "1.50"}) {
      EXPECT_EQ(lookup.Find(word), CategoryLookup::kUnknown) << word;
    }
  }
  const std::vector<std::string> one = {"yes"};
  const CategoryLookup lookup(one);
  EXPECT_EQ(lookup.Find("TRUE"), 0);
  EXPECT_EQ(lookup.Find("FALSE"), CategoryLookup::kUnknown);
}

TEST(CategoryLookupTest, OtherCategoriesHaveNoTruthValue) {
  for (const std::vector<std::string>& categories :
       {std::vector<std::string>{"no", "unknown", "yes"},
        {"0", "1", "2"},
        {"TRUE", "True"},
        {"true", "yes"},
        {"A", "T"}}) {
    const CategoryLookup lookup(categories);
    for (const char* word : {"true", "t", "Y", "F", "FALSE", "3.0"}) {
      const bool is_one = std::find(categories.begin(), categories.end(), word) != categories.end();
      EXPECT_EQ(lookup.Find(word) != CategoryLookup::kUnknown, is_one) << word;
    }
  }
}

TEST(CategoryLookupTest, NoCategories) {
  const CategoryLookup lookup;
  EXPECT_EQ(lookup.Find("a"), CategoryLookup::kUnknown);
}

}  // namespace
}  // namespace chorale
