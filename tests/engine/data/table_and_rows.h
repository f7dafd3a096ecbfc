// A dataset with a column of each kind, and rows to be appended to it.
#ifndef CHORALE_TESTS_ENGINE_DATA_TABLE_AND_ROWS_H_
#define CHORALE_TESTS_ENGINE_DATA_TABLE_AND_ROWS_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/table.h"
#include "tests/engine/data/make_column.h"

namespace chorale {

inline Column Texts(std::string name, std::vector<std::string> texts, std::vector<int32_t> codes) {
  Column column = Categories(std::move(name), std::move(texts), std::move(codes));
  column.type = ColumnType::kText;
  return column;
}

inline Column Dates(std::string name, std::vector<double> days) {
  Column column = Numbers(std::move(name), std::move(days));
  column.meaning = Meaning::kDate;
  return column;
}

// Three rows with a column of each kind.
inline Dataset Base() {
  Column member = Numbers("member", {0, 1, NAN});
  member.meaning = Meaning::kBoolean;
  Dataset dataset;
  dataset.features.columns = {Numbers("age", {30, NAN, 50}), member, Dates("day", {1, 2, 3}),
                              Categories("city", {"Rome", "Bern"}, {0, 1, kMissingCode}),
                              Categories("size", {"1", "2"}, {0, 1, 1})};
  dataset.target = std::string("y");
  dataset.y = {1, 2, 3};
  return dataset;
}

// Two rows for it, with the columns in another order.
inline Table Rows() {
  Table rows;
  rows.columns = {Numbers("y", {4, 5}),
                  Categories("size", {"3", "2"}, {0, 1}),
                  Categories("city", {"Oslo", "Rome"}, {1, 0}),
                  Dates("day", {4, NAN}),
                  Numbers("member", {1, 0}),
                  Numbers("age", {NAN, 70})};
  return rows;
}

inline Column& ColumnOf(Table& rows, const std::string& name) {
  return rows.columns[rows.Find(name)];
}

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_DATA_TABLE_AND_ROWS_H_
