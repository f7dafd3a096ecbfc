#include "tests/server/codec/table_faults.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace chorale {
namespace {

constexpr int64_t kMaxInteger = int64_t{1} << 53;

// The form of column i of a table: all forms in turn, then numbers. Column 0 is the target.
using Form = v1::Column::ValuesCase;
constexpr Form kForms[] = {v1::Column::kNumeric,   v1::Column::kCategorical, v1::Column::kBools,
                           v1::Column::kIntegers,  v1::Column::kStrings,     v1::Column::kDates,
                           v1::Column::kTimestamps};
constexpr int kColumns = 7;

void AddCell(Form form, Random* random, v1::Column* column) {
  const int number = random->Between(0, 3);
  switch (form) {
    case v1::Column::kNumeric:
      column->mutable_numeric()->add_values(number);
      break;
    case v1::Column::kCategorical:
      column->mutable_categorical()->add_codes(number - 1);
      break;
    case v1::Column::kBools:
      column->mutable_bools()->add_values(number > 1);
      break;
    case v1::Column::kIntegers:
      column->mutable_integers()->add_values(number);
      break;
    case v1::Column::kStrings:
      column->mutable_strings()->add_values(absl::StrCat("text ", number));
      break;
    case v1::Column::kDates:
      column->mutable_dates()->add_days(number);
      break;
    case v1::Column::kTimestamps:
      column->mutable_timestamps()->add_microseconds(number);
      break;
    case v1::Column::VALUES_NOT_SET:
      break;
  }
}

std::string Path(int column, const std::string& rest = "") {
  return absl::StrCat("rows.columns[", column, "]", rest);
}

// A cell of the column with this form gets a value that `set` writes.
TableFault BadCell(Form form, const std::string& field,
                   std::function<void(v1::Column*, int row, Random*)> set,
                   ErrorReason reason = ErrorReason::kInvalidField) {
  return [=](int rows, Random* random, v1::Table* table) {
    int column = 0;
    while (kForms[column] != form) ++column;
    const int row = random->Between(0, rows - 1);
    set(table->mutable_columns(column), row, random);
    return Expected{Path(column, absl::StrCat(field, "[", row, "]")), reason};
  };
}

}  // namespace

v1::Table ValidTable(int rows, Random* random) {
  v1::Table table;
  for (int c = 0; c < kColumns; ++c) {
    v1::Column* const column = table.add_columns();
    column->set_name(absl::StrCat("column ", c));
    if (kForms[c] == v1::Column::kCategorical) {
      for (const char* category : {"red", "green", "blue"}) {
        column->mutable_categorical()->add_categories(category);
      }
    }
    for (int row = 0; row < rows; ++row) AddCell(kForms[c], random, column);
  }
  return table;
}

std::vector<TableFault> TableFaults() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {
      BadCell(v1::Column::kNumeric, ".numeric.values",
              [](v1::Column* c, int row, Random* r) {
                c->mutable_numeric()->set_values(row,
                                                 r->Between(0, 1) == 0 ? kInfinity : -kInfinity);
              }),
      BadCell(v1::Column::kCategorical, ".categorical.codes",
              [](v1::Column* c, int row, Random* r) {
                c->mutable_categorical()->set_codes(
                    row, r->Between(0, 1) == 0 ? r->Between(3, 1000) : -r->Between(2, 1000));
              }),
      BadCell(v1::Column::kIntegers, ".integers.values",
              [](v1::Column* c, int row, Random* r) {
                const int64_t beyond = kMaxInteger + r->Between(1, 1000);
                c->mutable_integers()->set_values(row, r->Between(0, 1) == 0 ? beyond : -beyond);
              }),
      BadCell(v1::Column::kDates, ".dates.days",
              [](v1::Column* c, int row, Random* r) {
                c->mutable_dates()->set_days(row, r->Between(0, 1) == 0
                                                      ? 2'932'896 + r->Between(1, 1000)
                                                      : -719'162 - r->Between(1, 1000));
              }),
      BadCell(v1::Column::kTimestamps, ".timestamps.microseconds",
              [](v1::Column* c, int row, Random* r) {
                const int64_t end = 253'402'300'800'000'000;
                c->mutable_timestamps()->set_microseconds(row, end + r->Between(0, 1000));
              }),
      [](int rows, Random* random, v1::Table* table) {
        constexpr int kBools = 2;
        table->mutable_columns(kBools)->mutable_bools()->add_missing_rows(0);
        const int wrong = random->Between(0, 1) == 0 ? rows : -1;
        table->mutable_columns(kBools)->mutable_bools()->add_missing_rows(wrong);
        return Expected{Path(kBools, ".bools.missing_rows[1]")};
      },
      [](int rows, Random* random, v1::Table* table) {
        constexpr int kTimes = 6;
        table->mutable_columns(kTimes)->mutable_timestamps()->add_missing_rows(
            rows + random->Between(0, 5));
        return Expected{Path(kTimes, ".timestamps.missing_rows[0]")};
      },
      [](int /*rows*/, Random* random, v1::Table* table) {
        const int category = random->Between(0, 2);
        table->mutable_columns(1)->mutable_categorical()->set_categories(category, "");
        return Expected{Path(1, absl::StrCat(".categorical.categories[", category, "]"))};
      },
      [](int /*rows*/, Random* random, v1::Table* table) {
        const int value = random->Between(4, 100);
        table->mutable_columns(0)->mutable_numeric()->set_meaning(
            static_cast<v1::NumericValues::Meaning>(value));
        return Expected{Path(0, ".numeric.meaning")};
      },
      [](int /*rows*/, Random* random, v1::Table* table) {
        const int column = random->Between(1, kColumns - 1);
        table->mutable_columns(column)->clear_values();
        return Expected{Path(column)};
      },
      [](int /*rows*/, Random* random, v1::Table* table) {
        const int column = random->Between(1, kColumns - 1);
        AddCell(kForms[column], random, table->mutable_columns(column));
        return Expected{Path(column)};
      },
      [](int /*rows*/, Random* random, v1::Table* table) {
        const int column = random->Between(1, kColumns - 1);
        table->mutable_columns(column)->clear_name();
        return Expected{Path(column, ".name")};
      },
      [](int /*rows*/, Random* random, v1::Table* table) {
        const int column = random->Between(1, kColumns - 1);
        table->mutable_columns(column)->set_name(table->columns(column - 1).name());
        return Expected{Path(column, ".name")};
      },
      [](int /*rows*/, Random* random, v1::Table* table) {
        const int column = random->Between(1, kColumns - 1);
        table->mutable_columns(column)->set_name(std::string(random->Between(25, 300), 'n'));
        return Expected{Path(column, ".name"), ErrorReason::kLimitExceeded};
      },
      [](int rows, Random* random, v1::Table* table) {
        for (int extra = rows; extra < 13; ++extra) {
          for (int c = 0; c < kColumns; ++c) AddCell(kForms[c], random, table->mutable_columns(c));
        }
        return Expected{"rows", ErrorReason::kLimitExceeded};
      },
      [](int /*rows*/, Random* /*random*/, v1::Table* table) {
        table->clear_columns();
        return Expected{"rows.columns"};
      },
  };
}

std::vector<TableFault> RegistrationFaults() {
  std::vector<TableFault> faults = TableFaults();
  faults.push_back(BadCell(
      v1::Column::kStrings, ".strings.values",
      [](v1::Column* c, int row, Random* r) {
        c->mutable_strings()->set_values(row, std::string(r->Between(25, 300), 't'));
      },
      ErrorReason::kLimitExceeded));
  faults.push_back([](int /*rows*/, Random* random, v1::Table* table) {
    v1::CategoricalValues* const values = table->mutable_columns(1)->mutable_categorical();
    for (int i = random->Between(6, 20); i > 0; --i) {
      values->add_categories(absl::StrCat("category ", i));
    }
    return Expected{Path(1, ".categorical.categories"), ErrorReason::kLimitExceeded};
  });
  faults.push_back([](int /*rows*/, Random* random, v1::Table* table) {
    // A missing target.
    table->mutable_columns(0)->mutable_numeric()->set_values(
        0, std::numeric_limits<double>::quiet_NaN());
    (void)random;
    return Expected{Path(0)};
  });
  return faults;
}

}  // namespace chorale
