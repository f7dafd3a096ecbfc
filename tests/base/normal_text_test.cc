#include "base/normal_text.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace chorale {
namespace {

// "Größe" composed, and decomposed as files from a Mac have it.
constexpr char kComposed[] = "Gr\u00F6\u00DFe";
constexpr char kDecomposed[] = "Gro\u0308\u00DFe";

TEST(NormalTextTest, TakesEqualTextsForOne) {
  EXPECT_NE(std::string(kComposed), kDecomposed);
  EXPECT_EQ(NormalText(kDecomposed), kComposed);
  EXPECT_EQ(NormalText(kComposed), kComposed);
  EXPECT_EQ(NormalText("A\u030A"), "\u00C5");
  EXPECT_EQ(NormalText("\u212B"), "\u00C5");  // the sign for angstrom
  // Marks in another order; Korean in pieces.
  EXPECT_EQ(NormalText("q\u0307\u0323"), NormalText("q\u0323\u0307"));
  EXPECT_EQ(NormalText("\u1112\u1161\u11AB"), "\uD55C");
}

TEST(NormalTextTest, TidiesSpacesOfAllKinds) {
  for (const char* text : {"two words", " two words ", "two  words", "two\twords", "two\nwords\r\n",
                           "\u00A0two\u00A0words\u00A0", "two\u202Fwords", "two\u3000words\u2003",
                           "\uFEFFtwo words", "two\u00A0 \u2009words", "two wor\u00ADds\u200B"}) {
    EXPECT_EQ(NormalText(text), "two words") << text;
  }
  EXPECT_EQ(NormalText(" \u00A0\t"), "");
  EXPECT_EQ(NormalText(""), "");
  // A mark that follows an invisible character belongs to the letter before.
  EXPECT_EQ(NormalText("o\u200B\u0308"), "\u00F6");
}

TEST(NormalTextTest, KeepsWhatDiffersToAReader) {
  for (const char* text : {"size", "Size", "SIZE", "si ze", "\uFF53ize", "na\u00EFve", "naive",
                           "\u2212"
                           "5",
                           "-5", "\U0001F468\u200D\U0001F469", "\u0646\u200C\u0647"}) {
    EXPECT_EQ(NormalText(text), text) << text;
  }
}

TEST(NormalTextTest, LeavesWhatIsNoText) {
  for (const char* bytes : {"\xFF", "a\xC3", " \xED\xA0\x80 "}) {
    EXPECT_EQ(NormalText(bytes), bytes);
  }
}

std::string Repeated(const std::string& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

// Above (class 230) before below (class 220): each of the latter has to pass all of the former. In
// n^2 steps this would take hours.
TEST(NormalTextTest, ManyMarksOfOneLetterAreOrderedInNoTime) {
  constexpr int kMany = 500'000;
  const std::string above = Repeated("\u0301", kMany);
  const std::string below = Repeated("\u0316", kMany);
  EXPECT_EQ(NormalText("q" + above + below), "q" + below + above);
  EXPECT_EQ(NormalText("q" + Repeated("\u0301\u0316", kMany)), "q" + below + above);
  // No marks by themselves (class 0), but made of two (129 and 130) each.
  EXPECT_EQ(NormalText(Repeated("\u0F73", kMany)),
            Repeated("\u0F71", kMany) + Repeated("\u0F72", kMany));
}

TEST(NormalTextTest, MarksOfOneClassKeepTheirOrder) {
  EXPECT_NE(NormalText("q\u0307\u0301"), NormalText("q\u0301\u0307"));
  EXPECT_EQ(NormalText("q\u0307\u0323\u0301"), "q\u0323\u0307\u0301");
  EXPECT_EQ(NormalText("a\u0301\u0316"), "\u00E1\u0316") << "a mark below does not block one above";
}

TEST(NormalTextTest, WithinTellsFormsThatAreTooLong) {
  EXPECT_EQ(NormalTextWithin("Gro\u0308\u00DFe", 7), "Gr\u00F6\u00DFe");
  EXPECT_EQ(NormalTextWithin("Gro\u0308\u00DFe", 6), std::nullopt);
  EXPECT_EQ(NormalTextWithin("plain", 5), "plain");
  EXPECT_EQ(NormalTextWithin("plain", 4), std::nullopt);
  EXPECT_EQ(NormalTextWithin("\xFF\xFF", 1), std::nullopt);
  EXPECT_EQ(NormalTextWithin("", 0), "");
  // What shrinks: three bytes of a sign become one, spaces and what is invisible become nothing.
  EXPECT_EQ(NormalTextWithin("\u212A\u1FEF\u1FEF", 3), "K``");
  EXPECT_EQ(NormalTextWithin("a" + Repeated("\u3000\u200B", 100'000) + "b", 3), "a b");
  EXPECT_EQ(NormalTextWithin("a" + Repeated("\u0301\u0316", 100'000), 500), std::nullopt);
}

// The normal form is its own, whatever it is made from.
TEST(NormalTextTest, IsStable) {
  std::mt19937 random(1);
  const std::vector<std::string> pieces = {"a",      " ",      "\t",     "\u00A0", "\u0308", "o",
                                           "\u200B", "\u00DF", "\u1112", "\u1161", "\u11AB", "\n",
                                           "\u0323", "\u3000", "\uFEFF", "\u0344", "\u2126", "Z"};
  for (int round = 0; round < 5'000; ++round) {
    std::string text;
    for (size_t n = random() % 8; n > 0; --n) text += pieces[random() % pieces.size()];
    const std::string normal = NormalText(text);
    EXPECT_EQ(NormalText(normal), normal) << text;
  }
}

}  // namespace
}  // namespace chorale
