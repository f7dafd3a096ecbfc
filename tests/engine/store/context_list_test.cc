// Lists of contexts with conditions, orders and without columns.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/error_details.h"
#include "engine/store/context_store.h"
#include "engine/store/sqlite_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/store/make_record.h"
#include "tests/engine/store/store_fixture.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

using Is = ContextCondition::Test;
using testing::ElementsAre;
using testing::IsEmpty;

absl::Time Day(int day) { return absl::FromUnixSeconds(1'700'000'000) + day * absl::Hours(24); }

class ContextListTest : public StoreFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    // name, rows, day of creation; "b" and "c" have equally many rows.
    Add("a", 30, 3, {{"team", "x"}, {"app/kind", "1"}});
    Add("ab", 10, 1, {{"team", "y"}});
    Add("b", 20, 2, {{"team", ""}});
    Add("c", 20, 4, {});
    ASSERT_TRUE(store_->NoteUses({{"t", "a", Day(10)}, {"t", "c", Day(11)}}).ok());
    ContextRecord strange = MakeRecord("u", "a", "strange");
    ASSERT_TRUE(store_->Put(strange, "strange").ok());
  }

  void Add(const std::string& name, int64_t rows, int day,
           const std::map<std::string, std::string>& labels) {
    ContextRecord record = MakeRecord("t", name, absl::StrCat("dataset of ", name));
    record.rows = rows;
    record.created = Day(day);
    record.updated = Day(20 - day);
    record.model = name == "c" ? "other" : "some-model";
    record.columns.resize(name.size() + 1, record.columns[0]);
    record.feature_count = static_cast<int64_t>(record.columns.size());
    record.details = {absl::StrCat("About \"", name, "\" 100%"), labels,
                      name == "b" ? Day(100) : absl::InfiniteFuture()};
    ASSERT_TRUE(store_->Put(record, absl::StrCat("dataset of ", name)).ok());
  }

  // The names on all pages, with a space between pages.
  std::string Names(const ContextQuery& query, int64_t page_size = 1000) {
    std::vector<std::string> pages;
    std::string token;
    do {
      const absl::StatusOr<ContextPage> page = store_->List("t", query, {page_size}, token);
      if (!page.ok()) return page.status().ToString();
      std::vector<std::string> names;
      for (const ContextRecord& record : page->records) names.push_back(record.name);
      pages.push_back(absl::StrJoin(names, ","));
      token = page->next_page_token;
    } while (!token.empty());
    return absl::StrJoin(pages, " ");
  }

  std::string Where(ContextCondition condition) { return Names({.conditions = {condition}}); }
};

TEST_F(ContextListTest, Conditions) {
  using F = ContextField;
  const struct {
    ContextCondition condition;
    const char* names;
  } cases[] = {
      {{F::kName, "", Is::kEqual, "a"}, "a"},
      {{F::kName, "", Is::kNotEqual, "a"}, "ab,b,c"},
      {{F::kName, "", Is::kStartsWith, "a"}, "a,ab"},
      {{F::kName, "", Is::kStartsWith, ""}, "a,ab,b,c"},
      {{F::kModel, "", Is::kEqual, "other"}, "c"},
      {{F::kModel, "", Is::kNotEqual, "other"}, "a,ab,b"},
      {{F::kTarget, "", Is::kEqual, "y"}, "a,ab,b,c"},
      {{F::kTarget, "", Is::kEqual, "Y"}, ""},
      {{F::kDescription, "", Is::kContains, "\"a\""}, "a"},
      {{F::kDescription, "", Is::kContains, "0%"}, "a,ab,b,c"},
      {{F::kDescription, "", Is::kContains, "1_0"}, ""},
      {{F::kLabel, "team", Is::kEqual, "x"}, "a"},
      {{F::kLabel, "team", Is::kEqual, ""}, "b"},
      {{F::kLabel, "team", Is::kNotEqual, "x"}, "ab,b,c"},
      {{F::kLabel, "team", Is::kExists, ""}, "a,ab,b"},
      {{F::kLabel, "app/kind", Is::kEqual, "1"}, "a"},
      {{F::kLabel, "app", Is::kExists, ""}, ""},
      {{F::kRows, "", Is::kLess, int64_t{20}}, "ab"},
      {{F::kRows, "", Is::kLessOrEqual, int64_t{20}}, "ab,b,c"},
      {{F::kRows, "", Is::kEqual, int64_t{20}}, "b,c"},
      {{F::kRows, "", Is::kNotEqual, int64_t{20}}, "a,ab"},
      {{F::kRows, "", Is::kGreater, int64_t{20}}, "a"},
      {{F::kRows, "", Is::kGreaterOrEqual, int64_t{20}}, "a,b,c"},
      {{F::kFeatures, "", Is::kEqual, int64_t{3}}, "ab"},
      {{F::kDatasetBytes, "", Is::kEqual, int64_t{13}}, "ab"},
      {{F::kCreated, "", Is::kLess, Day(3)}, "ab,b"},
      {{F::kUpdated, "", Is::kLess, Day(17)}, "c"},
      {{F::kLastUsed, "", Is::kLess, Day(11)}, "a,ab,b"},
      {{F::kLastUsed, "", Is::kGreaterOrEqual, Day(11)}, "c"},
      {{F::kExpires, "", Is::kLessOrEqual, Day(100)}, "b"},
      // Times beyond the range of the database are not those of "never" and "unknown".
      {{F::kExpires, "", Is::kGreater, absl::FromUnixSeconds(253'402'300'799)}, "a,ab,c"},
      {{F::kExpires, "", Is::kEqual, absl::FromUnixSeconds(253'402'300'799)}, ""},
      {{F::kLastUsed, "", Is::kLess, absl::FromUnixSeconds(-62'135'596'800)}, "ab,b"},
  };
  for (const auto& c : cases) EXPECT_EQ(Where(c.condition), c.names) << &c - cases;
  EXPECT_EQ(Names({.conditions = {{F::kRows, "", Is::kEqual, int64_t{20}},
                                  {F::kCreated, "", Is::kGreater, Day(2)}}}),
            "c");
}

TEST_F(ContextListTest, OrdersOnPagesOfEverySize) {
  using F = ContextField;
  const struct {
    ContextQuery query;
    const char* names;
  } cases[] = {
      {{.order = F::kName}, "a,ab,b,c"},
      {{.order = F::kName, .descending = true}, "c,b,ab,a"},
      {{.order = F::kRows}, "ab,b,c,a"},
      {{.order = F::kRows, .descending = true}, "a,b,c,ab"},
      {{.order = F::kFeatures}, "a,b,c,ab"},
      {{.order = F::kDatasetBytes, .descending = true}, "ab,a,b,c"},
      {{.order = F::kCreated}, "ab,b,a,c"},
      {{.order = F::kUpdated}, "c,a,b,ab"},
      {{.order = F::kLastUsed}, "ab,b,a,c"},
      {{.order = F::kExpires}, "b,a,ab,c"},
      {{.order = F::kExpires, .descending = true}, "a,ab,c,b"},
      {{.conditions = {{F::kRows, "", Is::kLess, int64_t{30}}}, .order = F::kCreated}, "ab,b,c"},
  };
  for (const auto& c : cases) {
    for (const bool with_columns : {false, true}) {
      ContextQuery query = c.query;
      query.with_columns = with_columns;
      EXPECT_EQ(Names(query), c.names) << &c - cases;
      for (const int64_t page_size : {1, 2, 3}) {
        std::string names = Names(query, page_size);
        for (char& character : names) character = character == ' ' ? ',' : character;
        EXPECT_EQ(names, c.names) << &c - cases << ", pages of " << page_size;
      }
    }
  }
}

TEST_F(ContextListTest, ListsWithoutColumnsHaveEverythingElse) {
  const ContextRecord full = store_->List("t", {1}, "")->records.at(0);
  const ContextRecord basic = store_->List("t", {.with_columns = false}, {1}, "")->records.at(0);
  EXPECT_EQ(full.columns.size(), 2u);
  EXPECT_THAT(basic.columns, IsEmpty());
  EXPECT_EQ(basic.feature_count, 2);
  EXPECT_EQ(full.feature_count, 2);
  EXPECT_EQ(EtagOf(basic), EtagOf(full));
  EXPECT_EQ(basic.tenant, full.tenant);
  EXPECT_EQ(basic.name, full.name);
  EXPECT_EQ(basic.model, full.model);
  EXPECT_EQ(basic.digest, full.digest);
  EXPECT_EQ(basic.target, full.target);
  EXPECT_EQ(basic.rows, full.rows);
  EXPECT_EQ(basic.dataset_bytes, full.dataset_bytes);
  EXPECT_EQ(basic.clipped_targets, full.clipped_targets);
  EXPECT_EQ(basic.created, full.created);
  EXPECT_EQ(basic.updated, full.updated);
  EXPECT_EQ(basic.last_used, full.last_used);
  EXPECT_TRUE(basic.details == full.details);
}

TEST_F(ContextListTest, TokensBelongToTheConditionsAndTheOrder) {
  const ContextQuery query = {.conditions = {{ContextField::kRows, "", Is::kGreater, int64_t{5}}},
                              .order = ContextField::kCreated};
  const std::string token = store_->List("t", query, {1}, "")->next_page_token;
  ContextQuery same = query;
  same.with_columns = false;
  EXPECT_TRUE(store_->List("t", same, {2}, token).ok());
  ContextQuery other = query;
  other.conditions[0].value = int64_t{6};
  EXPECT_EQ(ErrorField(store_->List("t", other, {1}, token).status()), "page_token");
  other = query;
  other.descending = true;
  EXPECT_EQ(ErrorField(store_->List("t", other, {1}, token).status()), "page_token");
  EXPECT_EQ(ErrorField(store_->List("t", {1}, token).status()), "page_token");
}

TEST_F(ContextListTest, PagesWhileTheListingChanges) {
  const ContextQuery query = {.order = ContextField::kRows, .with_columns = false};
  const std::string token = store_->List("t", query, {2}, "")->next_page_token;  // after "b"
  ASSERT_TRUE(store_->Delete("t", "b").ok());
  Open();
  const ContextPage page = store_->List("t", query, {2}, token).value();
  ASSERT_EQ(page.records.size(), 2u);
  EXPECT_EQ(page.records[0].name, "c");
  EXPECT_EQ(page.records[1].name, "a");
}

TEST_F(ContextListTest, PagesWithoutColumnsEndAtTheirBytes) {
  const ContextQuery query = {.with_columns = false};
  EXPECT_EQ(store_->List("t", query, {1000, 1}, "")->records.size(), 1u);
  EXPECT_EQ(store_->List("t", query, {1000, 1000}, "")->records.size(), 2u);
}

TEST_F(ContextListTest, DamagedSummariesAreDataLoss) {
  const std::string path = absl::StrCat(folder_.path(), "/contexts.db");
  const auto change = [&](const std::string& sql) {
    store_.reset();
    ASSERT_TRUE((*SqliteConnection::Open(path))->Execute(sql).ok());
    Open();
  };
  change("UPDATE summaries SET features = 7 WHERE tenant = 't' AND name = 'a'");
  for (const bool with_columns : {false, true}) {
    const absl::Status status =
        store_->List("t", {.with_columns = with_columns}, {10}, "").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the record of context \"a\""));
  }
  EXPECT_TRUE(store_->List("u", {10}, "").ok());
  change("DELETE FROM summaries WHERE tenant = 't' AND name = 'a'");
  for (const bool with_columns : {false, true}) {
    EXPECT_EQ(store_->List("t", {.with_columns = with_columns}, {10}, "").status().code(),
              absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace chorale
