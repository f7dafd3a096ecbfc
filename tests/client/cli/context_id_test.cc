#include "client/cli/context_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/names.h"

namespace chorale::client {
namespace {

using ::testing::MatchesRegex;

TEST(ContextIdTest, KeepsWhatANameMayHave) {
  EXPECT_EQ(IdFromFile("/data/Ames Houses.csv"), "ames-houses");
  EXPECT_EQ(IdFromFile("My Houses (2).csv"), "my-houses--2-");
  EXPECT_EQ(IdFromFile("_a.b_c.csv"), "a.b_c");
  EXPECT_EQ(IdFromFile("-"), "");
}

TEST(ContextIdTest, WritesLettersInAscii) {
  EXPECT_EQ(IdFromFile("gr\u00F6\u00DFe.csv"), "grosse");
  EXPECT_EQ(IdFromFile("gro\u0308\u00DFe.csv"), "grosse");
  EXPECT_EQ(IdFromFile("Gr\u00FC\u00DFe.csv"), "grusse");
  EXPECT_EQ(IdFromFile("\u00C5r \u00D8re \u0141\u00F3d\u017A.csv"), "ar-ore-lodz");
}

TEST(ContextIdTest, IdsAreValidAndDistinct) {
  const std::string long_name(80, 'a');
  std::set<std::string> ids;
  for (const std::string& stem :
       {std::string("\u0434\u0430\u043D\u043D\u044B\u0435"),
        std::string("\u0434\u0430\u043D\u043D\u0438"), std::string("2024 \u8868"),
        std::string("2024 \u88683"), std::string("\U0001F427"), std::string("..."), long_name + "1",
        long_name + "2"}) {
    const std::string id = IdFromFile(stem + ".csv");
    EXPECT_TRUE(ids.insert(id).second) << stem;
    if (stem != "...") EXPECT_TRUE(ValidateName("id", id).ok()) << id;
  }
  EXPECT_THAT(IdFromFile("2024 \u8868.csv"), MatchesRegex("2024-[0-9a-f]+"));
  EXPECT_THAT(IdFromFile("\u8868.csv"), MatchesRegex("table-[0-9a-f]+"));
}

}  // namespace
}  // namespace chorale::client
