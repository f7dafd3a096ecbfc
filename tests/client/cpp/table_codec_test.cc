#include "client/cpp/table_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace chorale::client {
namespace {

using ::testing::ElementsAre;

TEST(EncodeRowsTest, TakesOnlyTheRowsAskedFor) {
  DataFrame frame;
  ASSERT_TRUE(frame.AddNumeric("n", {1.0, 2.0, std::nan("")}).ok());
  ASSERT_TRUE(frame.AddCategorical("c", {"x", std::nullopt, "y"}).ok());
  ASSERT_TRUE(frame.AddStrings("s", {"1", std::nullopt, "2.0"}).ok());
  const v1::Table table = EncodeRows(frame, {1, 3}, TableUse::kRegister);
  ASSERT_EQ(table.columns_size(), 3);
  EXPECT_EQ(table.columns(0).name(), "n");
  EXPECT_EQ(table.columns(0).numeric().values(0), 2.0);
  EXPECT_TRUE(std::isnan(table.columns(0).numeric().values(1)));
  EXPECT_THAT(table.columns(1).categorical().categories(), ElementsAre("y"));
  EXPECT_THAT(table.columns(1).categorical().codes(), ElementsAre(-1, 0));
  EXPECT_THAT(table.columns(2).strings().values(), ElementsAre("", "2.0"));
}

TEST(EncodeRowsTest, SaysWhatNumbersMean) {
  DataFrame frame;
  const std::vector<Meaning> meanings = {Meaning::kNumber, Meaning::kBoolean, Meaning::kDate,
                                         Meaning::kDuration};
  for (const Meaning meaning : meanings) {
    ASSERT_TRUE(frame.AddNumeric(MeaningName(meaning), {1, 0, NAN}, meaning).ok());
  }
  const v1::Table table = EncodeTable(frame, TableUse::kRegister);
  EXPECT_EQ(table.columns(0).numeric().meaning(), v1::NumericValues::MEANING_UNSPECIFIED);
  EXPECT_EQ(table.columns(2).numeric().meaning(), v1::NumericValues::MEANING_DATE);
  for (size_t i = 0; i < meanings.size(); ++i) {
    EXPECT_EQ(DecodeMeaning(table.columns(static_cast<int>(i)).numeric().meaning()), meanings[i]);
  }
  EXPECT_EQ(DecodeMeaning(static_cast<v1::NumericValues::Meaning>(9)), Meaning::kNumber);
}

TEST(EncodeRowsTest, TextsThatNoContextCanHoldAreCutWhenLookedUp) {
  const std::string most(kMaxTextBytes, 'x');
  const std::string beyond = most + "y";
  // "ö" would be cut in half.
  const std::vector<std::optional<std::string>> cells = {
      most, beyond, beyond + "z", std::string(1 << 20, 'q'), most + "\u00F6", std::nullopt};
  DataFrame frame;
  ASSERT_TRUE(frame.AddCategorical("c", cells).ok());
  ASSERT_TRUE(frame.AddStrings("s", cells).ok());
  EXPECT_THAT(
      EncodeTable(frame, TableUse::kLookUp).columns(1).strings().values(),
      ElementsAre(most, beyond, beyond, std::string(kMaxTextBytes + 1, 'q'), most + "\u00F6", ""));
  const v1::CategoricalValues looked_up =
      EncodeTable(frame, TableUse::kLookUp).columns(0).categorical();
  EXPECT_THAT(looked_up.categories(),
              ElementsAre(most, beyond, std::string(kMaxTextBytes + 1, 'q'), most + "\u00F6"));
  EXPECT_THAT(looked_up.codes(), ElementsAre(0, 1, 1, 2, 3, -1));
  EXPECT_EQ(EncodeTable(frame, TableUse::kRegister).columns(0).categorical().categories(2),
            beyond + "z");
}

DataFrame RandomFrame(int64_t rows, int64_t categories, size_t category_bytes, uint32_t seed) {
  std::mt19937 random(seed);
  DataFrame frame;
  std::vector<double> numbers(rows);
  for (double& x : numbers) x = static_cast<double>(random());
  std::vector<std::string> names;
  for (int64_t c = 0; c < categories; ++c) {
    names.push_back(absl::StrCat(c, "-", std::string(category_bytes, 'x')));
  }
  std::vector<int32_t> codes(rows);
  for (int32_t& code : codes) code = static_cast<int32_t>(random() % (categories + 1)) - 1;
  EXPECT_TRUE(frame.AddNumeric("number", numbers).ok());
  std::vector<std::optional<std::string>> strings;
  for (const int32_t code : codes) {
    strings.push_back(code < 0 ? std::optional<std::string>() : names[code]);
  }
  EXPECT_TRUE(frame.AddCategorical("category", names, codes).ok());
  EXPECT_TRUE(frame.AddStrings("string", std::move(strings)).ok());
  return frame;
}

TEST(SplitRowsTest, RangesAreWholeBoundedAndNotWasteful) {
  for (const size_t category_bytes : {1, 200}) {
    const DataFrame frame = RandomFrame(20'000, 500, category_bytes, 5);
    for (const int64_t max_bytes : {1'000, 20'000, 512 << 10}) {
      const std::vector<RowRange> ranges = SplitRows(frame, max_bytes, 1 << 20);
      int64_t next = 0;
      int64_t bytes = 0;
      for (const RowRange& range : ranges) {
        EXPECT_EQ(range.begin, next);
        next = range.end;
        const auto size =
            static_cast<int64_t>(EncodeRows(frame, range, TableUse::kRegister).ByteSizeLong());
        EXPECT_TRUE(size <= max_bytes || range.size() == 1) << size << " > " << max_bytes;
        bytes += size;
      }
      EXPECT_EQ(next, frame.row_count());
      // The estimate is an upper bound, but a tight one.
      EXPECT_LE(static_cast<int64_t>(ranges.size() - 1) * max_bytes, 2 * bytes);
    }
  }
}

TEST(SplitRowsTest, EachRowIsInOneMessageEvenWhenItAloneIsTooLarge) {
  const DataFrame frame = RandomFrame(10, 4, 100, 6);
  const std::vector<RowRange> ranges = SplitRows(frame, 1, 100);
  ASSERT_EQ(ranges.size(), 10u);
  for (const RowRange& range : ranges) EXPECT_EQ(range.size(), 1);
}

TEST(SplitRowsTest, RowLimitHolds) {
  const DataFrame frame = RandomFrame(10, 4, 1, 7);
  const std::vector<RowRange> ranges = SplitRows(frame, 1 << 20, 4);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].size(), 4);
  EXPECT_EQ(ranges[1].size(), 4);
  EXPECT_EQ(ranges[2].size(), 2);
  EXPECT_TRUE(SplitRows(DataFrame(), 100, 100).empty());
}

}  // namespace
}  // namespace chorale::client
