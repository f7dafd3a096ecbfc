#include "base/text_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chorale {
namespace {

TextCells Count(const std::vector<std::string>& texts) {
  TextCellCounter counter;
  for (size_t row = 0; row < texts.size(); ++row) {
    counter.Add(texts[row], static_cast<int64_t>(row));
  }
  return counter.Finish();
}

TextType TypeOf(const std::vector<std::string>& texts) { return TypeOfTexts(Count(texts)); }

TEST(TextCellsTest, InferTheTypeOfAColumn) {
  EXPECT_EQ(TypeOf({}), TextType::kNumbers);
  EXPECT_EQ(TypeOf({"1", "-2.5e3"}), TextType::kNumbers);
  EXPECT_EQ(TypeOf({"true", "FALSE"}), TextType::kBooleans);
  EXPECT_EQ(TypeOf({"true", "0", "1"}), TextType::kBooleans);
  EXPECT_EQ(TypeOf({"0", "1"}), TextType::kNumbers);
  EXPECT_EQ(TypeOf({"true", "2"}), TextType::kCategories);
  EXPECT_EQ(TypeOf({"2024-01-31", "2024-02-29 12:00"}), TextType::kDates);
  EXPECT_EQ(TypeOf({"2024-01-31", "5"}), TextType::kCategories);
  EXPECT_EQ(TypeOf({"2024-01-31", "2024-02-30"}), TextType::kCategories);
  EXPECT_EQ(TypeOf({"a", "b"}), TextType::kCategories);
}

TEST(TextCellsTest, CountCellsAndTheirFirstRows) {
  TextCellCounter counter;
  counter.Add("007", 0, 2);
  counter.Add("x", 2, 3);
  counter.Add("9007199254740993", 5);
  counter.Add("1,5", 6, 4);
  counter.Add("x", 10);
  const TextCells cells = counter.Finish();
  EXPECT_EQ(cells.cells(), 11);
  EXPECT_EQ(cells.numbers, 3);
  EXPECT_EQ(cells.leading_zeros.cells, 2);
  EXPECT_EQ(cells.rounded.first_row, 5);
  ASSERT_EQ(cells.others.size(), 2U);
  EXPECT_EQ(cells.others[0].text, "x");
  EXPECT_EQ(cells.others[0].cells, 4);
  EXPECT_EQ(cells.others[0].first_row, 2);
  EXPECT_EQ(cells.odd_numbers.cells, 4);
  EXPECT_EQ(cells.odd_numbers.first_row, 6);
}

TEST(TextCellsTest, FindDatesThatAreWrittenAsNumbers) {
  EXPECT_EQ(DatesAsNumbers(Count({"20240131", "20240201"})).cells, 2);
  EXPECT_EQ(DatesAsNumbers(Count({"202401", "202402", "202403"})).cells, 3);
  EXPECT_EQ(DatesAsNumbers(Count({"202401", "202402", "202402"})).cells, 0)
      << "two months may be a coincidence";
  EXPECT_EQ(DatesAsNumbers(Count({"20240131", "20240230"})).cells, 0);
}

}  // namespace
}  // namespace chorale
