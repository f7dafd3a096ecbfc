// One table in every form of its columns is one context, and query rows in every form get the same
// samples: by the API, and by the chorale program from files.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/column_forms_fixture.h"

namespace chorale::end_to_end {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr int kRows = 24;
constexpr int32_t kFirstDay = 15340;  // 2012-01-01

// The forms of a table; `files` of the chorale program have kStrings.
enum class Form { kNumbers, kTypes, kTimes, kStrings };

// 24 days with a missing cell in every column but the target and the days, whose dates count time.
// Query rows are the first rows without the target.
class DayTable {
 public:
  DayTable(Form form, int rows) : form_(form), rows_(rows) {
    AddDays();
    AddHolidays();
    AddVisitors();
    AddShops();
  }

  void AddTarget() {
    v1::Column* const column = Add("y");
    for (int i = 0; i < rows_; ++i) {
      const double y = 10 + 0.5 * i + (i % 3 == 0 ? 3 : 0) + 0.25 * (i * i % 7);
      if (form_ == Form::kStrings) {
        column->mutable_strings()->add_values(absl::StrCat(y));
      } else {
        column->mutable_numeric()->add_values(y);
      }
    }
  }

  const v1::Table& message() const { return table_; }

  // REQUIRES: the form is kStrings.
  std::string AsCsv() const {
    std::string csv;
    for (const v1::Column& column : table_.columns()) {
      absl::StrAppend(&csv, csv.empty() ? "" : ",", column.name());
    }
    absl::StrAppend(&csv, "\n");
    for (int i = 0; i < rows_; ++i) {
      for (int c = 0; c < table_.columns_size(); ++c) {
        absl::StrAppend(&csv, c == 0 ? "" : ",", table_.columns(c).strings().values(i));
      }
      absl::StrAppend(&csv, "\n");
    }
    return csv;
  }

 private:
  static constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

  v1::Column* Add(const std::string& name) {
    v1::Column* const column = table_.add_columns();
    column->set_name(name);
    return column;
  }

  void AddDays() {
    v1::Column* const column = Add("day");
    for (int i = 0; i < rows_; ++i) {
      const int32_t day = kFirstDay + i;
      switch (form_) {
        case Form::kNumbers:
          column->mutable_numeric()->add_values(day);
          column->mutable_numeric()->set_meaning(v1::NumericValues::MEANING_DATE);
          break;
        case Form::kTypes:
          column->mutable_dates()->add_days(day);
          break;
        case Form::kTimes:
          column->mutable_timestamps()->add_microseconds(day * int64_t{86'400'000'000});
          break;
        case Form::kStrings:
          column->mutable_strings()->add_values(
              absl::StrCat("2012-01-", i < 9 ? "0" : "", i + 1, i % 2 == 0 ? "" : "T00:00Z"));
      }
    }
  }

  void AddHolidays() {
    v1::Column* const column = Add("holiday");
    for (int i = 0; i < rows_; ++i) {
      const bool missing = i == 5;
      const bool holiday = i % 3 == 0;
      switch (form_) {
        case Form::kNumbers:
          column->mutable_numeric()->add_values(missing ? kMissing : holiday ? 1 : 0);
          column->mutable_numeric()->set_meaning(v1::NumericValues::MEANING_BOOLEAN);
          break;
        case Form::kTypes:
        case Form::kTimes:
          column->mutable_bools()->add_values(holiday);
          if (missing) column->mutable_bools()->add_missing_rows(i);
          break;
        case Form::kStrings:
          column->mutable_strings()->add_values(missing ? "" : holiday ? "TRUE" : "false");
      }
    }
  }

  void AddVisitors() {
    v1::Column* const column = Add("visitors");
    for (int i = 0; i < rows_; ++i) {
      const bool missing = i == 2;
      const int64_t visitors = (i * 37) % 11 - 3;
      switch (form_) {
        case Form::kNumbers:
        case Form::kTimes:
          column->mutable_numeric()->add_values(missing ? kMissing : static_cast<double>(visitors));
          break;
        case Form::kTypes:
          column->mutable_integers()->add_values(visitors);
          if (missing) column->mutable_integers()->add_missing_rows(i);
          break;
        case Form::kStrings:
          column->mutable_strings()->add_values(
              missing ? "" : absl::StrCat(visitors, i % 2 == 0 ? ".0" : ""));
      }
    }
  }

  void AddShops() {
    v1::Column* const column = Add("shop");
    for (int i = 0; i < rows_; ++i) {
      const bool missing = i == 7;
      if (form_ == Form::kStrings || form_ == Form::kTimes) {
        column->mutable_strings()->add_values(missing ? "" : i % 2 == 0 ? "north" : "Gro\u00DF");
        continue;
      }
      if (i == 0) {
        column->mutable_categorical()->add_categories("Gro\u00DF");
        column->mutable_categorical()->add_categories("north");
      }
      column->mutable_categorical()->add_codes(missing ? -1 : i % 2 == 0 ? 1 : 0);
    }
  }

  const Form form_;
  const int rows_;
  v1::Table table_;
};

constexpr Form kForms[] = {Form::kNumbers, Form::kTypes, Form::kTimes, Form::kStrings};

TEST_F(ColumnFormsTest, OneTableInEveryFormIsOneContext) {
  std::string digest;
  for (const Form form : kForms) {
    DayTable table(form, kRows);
    table.AddTarget();
    const auto reply = client_->Register("days", table.message(), "y");
    ASSERT_TRUE(reply.ok()) << reply.status.error_message();
    if (digest.empty()) digest = reply.value.context().digest();
    EXPECT_EQ(reply.value.context().digest(), digest);
    EXPECT_EQ(reply.value.already_registered(), form != Form::kNumbers);
    std::vector<v1::Warning::Reason> reasons;
    for (const v1::Warning& warning : reply.value.warnings()) {
      if (warning.reason() == v1::Warning::REASON_READ_AS_DATES) {
        EXPECT_EQ(warning.column(), "day");
        EXPECT_EQ(form, Form::kStrings);
      }
      reasons.push_back(warning.reason());
    }
    const bool strings = form == Form::kStrings;
    EXPECT_EQ(std::count(reasons.begin(), reasons.end(), v1::Warning::REASON_READ_AS_DATES),
              strings ? 1 : 0);
  }
  DayTable table(Form::kStrings, kRows);
  table.AddTarget();
  const client::ProgramResult result =
      Chorale({"register", File("days.csv", table.AsCsv()), "--target", "y", "--name", "days",
               "--format", "json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(digest));

  // Query rows.
  std::vector<Samples> samples;
  for (const Form form : kForms) {
    DayTable rows(form, 9);
    if (form == Form::kStrings) rows.AddTarget();
    v1::SampleRequest request;
    request.set_context("contexts/days");
    request.set_path_count(5);
    request.set_seed(7);
    request.set_ignore_extra_columns(form == Form::kStrings);
    *request.mutable_rows() = rows.message();
    samples.push_back(client_->Sample(request));
    ASSERT_TRUE(samples.back().complete()) << samples.back().status.error_message();
    EXPECT_TRUE(SameBits(samples.back(), samples.front()))
        << Difference(samples.back(), samples.front());
  }
}

TEST_F(ColumnFormsTest, ACellOfAFileThatIsNoValueIsNamedByItsLine) {
  DayTable table(Form::kStrings, kRows);
  table.AddTarget();
  ASSERT_TRUE(client_->Register("lines", table.message(), "y").ok());
  const std::string header = "day,holiday,visitors,shop\n";
  for (const auto& [line, error] : {
           std::pair{"02.01.2012,true,1,north",
                     "is \"02.01.2012\", but the context's column requires a date"},
           {"2012-01-02,maybe,1,north", "is \"maybe\", but the context's column requires a word"},
           {"2012-01-02,true,many,north",
            "is \"many\", but the context's column requires a finite"},
       }) {
    const client::ProgramResult result =
        Chorale({"predict", "lines",
                 File("bad.csv", absl::StrCat(header, "15340,yes,3.0,north\n", line, "\n"))});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr("bad.csv: line 3: "), HasSubstr(error)));
  }
}

TEST_F(ColumnFormsTest, IdentifiersKeepTheirDigits) {
  v1::Table table;
  v1::Column* const id = table.add_columns();
  id->set_name("id");
  v1::Column* const y = table.add_columns();
  y->set_name("y");
  for (int i = 0; i < 24; ++i) {
    id->mutable_integers()->add_values(9007199254740992 + i % 2);
    y->mutable_numeric()->add_values(i % 2 == 0 ? 1.0 + 0.01 * i : 5.0 - 0.01 * i);
  }
  auto reply = client_->Register("ids", table, "y");
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(DetailsOf(reply.status).fields,
              UnorderedElementsAre("rows.columns[0].integers.values[1]"));

  for (int i = 0; i < 24; ++i) {
    id->mutable_strings()->add_values(i % 2 == 0 ? "9007199254740992" : "9007199254740993");
  }
  reply = client_->Register("ids", table, "y");
  ASSERT_TRUE(reply.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.value.context().features(0).category_count(), 2);
  ASSERT_GE(reply.value.warnings_size(), 1);
  EXPECT_EQ(reply.value.warnings(0).reason(), v1::Warning::REASON_LARGE_INTEGERS);

  v1::PredictRequest request;
  request.set_context("contexts/ids");
  v1::Column* const query = request.mutable_rows()->add_columns();
  query->set_name("id");
  query->mutable_strings()->add_values("9007199254740992");
  query->mutable_strings()->add_values("9007199254740993");
  const auto predicted = client_->Predict(request);
  ASSERT_TRUE(predicted.ok()) << predicted.status.error_message();
  EXPECT_LT(predicted.value.means(0) + 1, predicted.value.means(1));
}

TEST_F(ColumnFormsTest, RowsWithoutATargetAreDropped) {
  DayTable days(Form::kStrings, kRows);
  days.AddTarget();
  v1::Table table = days.message();
  table.mutable_columns(4)->mutable_strings()->set_values(3, "");
  v1::ContextSpec spec;
  spec.set_context_id("dropped");
  spec.set_target_column("y");
  auto reply = client_->Upload(spec, {table});
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(reply.status.error_message(), HasSubstr("row 3 is missing"));

  spec.set_missing_targets(v1::ContextSpec::MISSING_TARGETS_DROP);
  reply = client_->Upload(spec, {table});
  ASSERT_TRUE(reply.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.value.context().row_count(), kRows - 1);
  EXPECT_EQ(reply.value.warnings(0).reason(), v1::Warning::REASON_DROPPED_ROWS);
  EXPECT_EQ(reply.value.warnings(0).cell_count(), 1);

  // The same content without the row, from a file with the row.
  std::string csv = days.AsCsv();
  const client::ProgramResult refused =
      Chorale({"register", File("gap.csv", absl::StrCat(csv, "2012-02-01,true,1,north,\n")),
               "--target", "y", "--name", "gap"});
  EXPECT_EQ(refused.exit_code, 2) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("--drop-missing-targets"));
  const client::ProgramResult dropped =
      Chorale({"register", File("gap.csv", absl::StrCat(csv, "2012-02-01,true,1,north,\n")),
               "--target", "y", "--name", "gap", "--drop-missing-targets", "--format", "json"});
  EXPECT_EQ(dropped.exit_code, 0) << dropped.err;
  EXPECT_THAT(dropped.err, HasSubstr("1 row without a target value was dropped"));
  const auto whole = client_->Register("whole", days.message(), "y");
  EXPECT_THAT(dropped.out, HasSubstr(whole.value.context().digest()));
}

}  // namespace
}  // namespace chorale::end_to_end
