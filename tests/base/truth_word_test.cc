#include "base/truth_word.h"

#include <string>

#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(TruthWordTest, WordsOfAllTools) {
  for (const char* word : {"true", "TRUE", "True", "tRuE", "t", "T", "yes", "Y", "1", "1.0"}) {
    EXPECT_EQ(TruthOfWord(word), true) << word;
  }
  for (const char* word : {"false", "FALSE", "False", "f", "F", "no", "N", "0", "0.0"}) {
    EXPECT_EQ(TruthOfWord(word), false) << word;
  }
  for (const char* word :
       {"", "2", "on", "off", "ja", "tr", "truee", " true", "1.00", "-0", "01"}) {
    EXPECT_EQ(TruthOfWord(word), std::nullopt) << word;
  }
  EXPECT_EQ(TruthOfWord(std::string(1 << 20, 't')), std::nullopt);
}

}  // namespace
}  // namespace chorale
