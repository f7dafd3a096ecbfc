// What a store keeps of a context in addition to its content.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/context_store.h"
#include "engine/store/sqlite_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/store/make_record.h"
#include "tests/engine/store/store_fixture.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

class ContextDetailsTest : public StoreFixture {};

TEST_F(ContextDetailsTest, DetailsCanBeReplaced) {
  ASSERT_TRUE(Put("a", "one").ok());
  const ContextRecord before = store_->Get("t", "a").value();
  const ContextDetails details = {"other", {{"k", "v"}, {"l", ""}}, absl::InfiniteFuture()};
  const absl::Time now = absl::FromUnixNanos(1'800'000'000'000'000'003);
  ASSERT_TRUE(store_->UpdateDetails("t", "a", details, now).ok());
  for (int i = 0; i < 2; ++i) {
    const ContextRecord record = store_->Get("t", "a").value();
    EXPECT_TRUE(record.details == details);
    EXPECT_EQ(record.updated, now);
    EXPECT_EQ(record.created, before.created);
    EXPECT_EQ(record.digest, before.digest);
    EXPECT_EQ(record.columns[1].calendar, before.columns[1].calendar);
    EXPECT_EQ(record.columns[1].calendar.size(), 2u);
    EXPECT_NE(EtagOf(record), EtagOf(before));
    Open();
  }
  EXPECT_EQ(store_->UpdateDetails("u", "a", details, now).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->UpdateDetails("t", "b", details, now).code(), absl::StatusCode::kNotFound);
}

TEST_F(ContextDetailsTest, TheLastUseIsStoredAndDoesNotChangeTheEtag) {
  ASSERT_TRUE(Put("a", "one").ok());
  const std::string etag = EtagOf(*store_->Get("t", "a"));
  EXPECT_EQ(store_->Get("t", "a")->last_used, absl::InfinitePast());
  const absl::Time now = absl::FromUnixNanos(1'800'000'000'000'000'003);
  ASSERT_TRUE(store_->NoteUses({{"t", "gone", now}, {"t", "a", now}}).ok());
  ASSERT_TRUE(store_->NoteUses({{"t", "a", now - absl::Seconds(1)}}).ok());
  Open();
  EXPECT_EQ(store_->Get("t", "a")->last_used, now);
  EXPECT_EQ(EtagOf(*store_->Get("t", "a")), etag);
}

TEST_F(ContextDetailsTest, ExpiredContextsAreListed) {
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  for (const int minutes : {3, 1, 2}) {
    ContextRecord record = MakeRecord("t", absl::StrCat("c", minutes), "one");
    record.details.expires = now + absl::Minutes(minutes);
    ASSERT_TRUE(store_->Put(record, "one").ok());
  }
  ContextRecord never = MakeRecord("t", "never", "one");
  never.details.expires = absl::InfiniteFuture();
  ASSERT_TRUE(store_->Put(never, "one").ok());
  const auto expired = [&](absl::Duration later, int64_t limit) {
    const std::vector<ContextKey> keys = store_->ListExpired(now + later, limit).value();
    std::string names;
    for (const ContextKey& key : keys) {
      absl::StrAppend(&names, key.tenant, "/", key.name, " ");
    }
    return names;
  };
  EXPECT_EQ(expired(absl::Seconds(59), 10), "");
  EXPECT_EQ(expired(absl::Minutes(2), 10), "t/c1 t/c2 ");
  EXPECT_EQ(expired(absl::Hours(24 * 36'500), 10), "t/c1 t/c2 t/c3 ");
  EXPECT_EQ(expired(absl::Hours(1), 2), "t/c1 t/c2 ");
  ASSERT_TRUE(store_->Delete("t", "c1").ok());
  EXPECT_EQ(expired(absl::Hours(1), 1), "t/c2 ");
}

TEST_F(ContextDetailsTest, AReplacementKeepsTheTimesOfCreationAndUse) {
  const auto replace = [&](const std::string& dataset, const std::string& etag,
                           const StoreQuota& quota = {}) {
    ContextRecord record = MakeRecord("t", "a", dataset);
    record.created += absl::Hours(1);
    record.updated = record.created;
    record.details.description = "of " + dataset;
    return store_->Put(record, dataset, quota, Replacement{etag});
  };
  EXPECT_EQ(replace("one", "").value(), PutOutcome::kCreated);
  const ContextRecord one = store_->Get("t", "a").value();
  const absl::Time used = one.created + absl::Hours(2);
  ASSERT_TRUE(store_->NoteUses({{"t", "a", used}}).ok());
  EXPECT_EQ(replace("one", "another").value(), PutOutcome::kUnchanged) << "as a retry";
  for (const std::string etag : {"another", ""}) {
    const auto other = replace("two", etag.empty() ? EtagOf(one) + "x" : etag);
    EXPECT_EQ(other.status().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(ErrorReasonOf(other.status()), "ETAG_MISMATCH");
  }
  EXPECT_EQ(store_->ReadDataset("t", "a").value(), "one");

  EXPECT_EQ(replace("two", EtagOf(one)).value(), PutOutcome::kReplaced);
  for (int i = 0; i < 2; ++i) {
    const ContextRecord two = store_->Get("t", "a").value();
    EXPECT_EQ(two.digest, ContentDigest("two"));
    EXPECT_EQ(two.created, one.created);
    EXPECT_EQ(two.last_used, used);
    EXPECT_EQ(two.details.description, "of two");
    EXPECT_EQ(store_->ReadDataset("t", "a").value(), "two");
    EXPECT_THAT(FilesBelow(folder_ / "datasets"), testing::SizeIs(1));
    Open();
  }
  // The replaced dataset does not count towards the quota.
  EXPECT_EQ(replace("six", "", {.contexts = 1, .dataset_bytes = 3}).value(), PutOutcome::kReplaced);
  EXPECT_EQ(ExceededQuota(replace("four", "", {.dataset_bytes = 3}).status()), "max_dataset_mib");
  ASSERT_TRUE(Put("b", "six").ok());
  EXPECT_EQ(ExceededQuota(replace("ten", "", {.dataset_bytes = 5}).status()), "max_dataset_mib")
      << "another context has the dataset";
  EXPECT_EQ(replace("ten", "").value(), PutOutcome::kReplaced);
  EXPECT_EQ(store_->ReadDataset("t", "b").value(), "six");
  EXPECT_EQ(
      store_->Put(MakeRecord("t", "n", "one"), "one", {}, Replacement{"etag"}).status().code(),
      absl::StatusCode::kAborted)
      << "no such context";
}

// The database of a server that had no details.
TEST_F(ContextDetailsTest, ADatabaseOfVersion1IsKept) {
  for (const char* name : {"a", "b"}) ASSERT_TRUE(Put(name, name).ok());
  const ContextRecord before = store_->Get("t", "a").value();
  store_.reset();
  {
    absl::StatusOr<std::unique_ptr<SqliteConnection>> database =
        SqliteConnection::Open(folder_ / "contexts.db");
    ASSERT_TRUE(database.ok()) << database.status();
    ASSERT_TRUE((*database)->Execute(kAsVersion1).ok());
  }
  EXPECT_TRUE(CheckContextStore(folder_.path()).empty());
  for (int i = 0; i < 2; ++i) {
    Open();
    const absl::StatusOr<ContextRecord> record = store_->Get("t", "a");
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->digest, before.digest);
    EXPECT_EQ(record->columns.size(), before.columns.size());
    EXPECT_EQ(record->clipped_targets, before.clipped_targets);
    EXPECT_EQ(record->updated, before.created);
    EXPECT_EQ(record->last_used, absl::InfinitePast());
    EXPECT_TRUE(record->details == ContextDetails());
    EXPECT_EQ(store_->ReadDataset("t", "b").value(), "b");
  }
  EXPECT_EQ(store_->Put(MakeRecord("t", "a", "a"), "a").value(), PutOutcome::kUnchanged);
}

// The database of a server that had no memory sets.
TEST_F(ContextDetailsTest, ADatabaseOfVersion2IsKept) {
  for (const char* name : {"a", "b"}) ASSERT_TRUE(Put(name, name).ok());
  ASSERT_TRUE(store_->NoteUses({{"t", "a", absl::FromUnixSeconds(1'900'000'000)}}).ok());
  const ContextRecord before = store_->Get("t", "a").value();
  store_.reset();
  {
    absl::StatusOr<std::unique_ptr<SqliteConnection>> database =
        SqliteConnection::Open(folder_ / "contexts.db");
    ASSERT_TRUE(database.ok()) << database.status();
    ASSERT_TRUE((*database)->Execute(kAsVersion2).ok());
  }
  EXPECT_TRUE(CheckContextStore(folder_.path()).empty());
  for (int i = 0; i < 2; ++i) {
    Open();
    const absl::StatusOr<ContextRecord> record = store_->Get("t", "a");
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(EtagOf(*record), EtagOf(before));
    EXPECT_EQ(record->last_used, before.last_used);
    EXPECT_EQ(record->memory, MemorySet());
    EXPECT_EQ(store_->ReadDataset("t", "b").value(), "b");
  }
  ContextRecord reduced = MakeRecord("t", "c", "c");
  reduced.memory = {.rows = 64, .policy = MemoryPolicy::kHeavy};
  ASSERT_TRUE(store_->Put(reduced, "c").ok());
  Open();
  const absl::StatusOr<ContextPage> page = store_->List("t", {10}, "");
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->records.size(), 3);
  EXPECT_EQ(page->records[0].memory, MemorySet());
  EXPECT_EQ(page->records[2].memory, reduced.memory);
}

// The database of a server that could not append rows.
TEST_F(ContextDetailsTest, ADatabaseOfVersion3IsKept) {
  ContextRecord reduced = MakeRecord("t", "a", "a");
  reduced.memory = {.rows = 64, .policy = MemoryPolicy::kHeavy};
  ASSERT_TRUE(store_->Put(reduced, "a").ok());
  ASSERT_TRUE(Put("b", "b").ok());
  const ContextRecord before = store_->Get("t", "a").value();
  store_.reset();
  {
    absl::StatusOr<std::unique_ptr<SqliteConnection>> database =
        SqliteConnection::Open(folder_ / "contexts.db");
    ASSERT_TRUE(database.ok()) << database.status();
    ASSERT_TRUE((*database)->Execute(kAsVersion3).ok());
  }
  EXPECT_TRUE(CheckContextStore(folder_.path()).empty());
  for (int i = 0; i < 2; ++i) {
    Open();
    const absl::StatusOr<ContextRecord> record = store_->Get("t", "a");
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(EtagOf(*record), EtagOf(before));
    EXPECT_EQ(record->memory, reduced.memory);
    EXPECT_EQ(record->appended_rows, 0);
    EXPECT_EQ(store_->ReadDataset("t", "b").value(), "b");
  }
  ContextRecord appended = MakeRecord("t", "b", "more of b");
  appended.appended_rows = 7;
  ASSERT_TRUE(store_->Put(appended, "more of b", {}, Replacement()).ok());
  Open();
  EXPECT_EQ(store_->Get("t", "b")->appended_rows, 7);
}

TEST_F(ContextDetailsTest, AppendedRowsAreCountedUntilTheyAreEncodedAnew) {
  ASSERT_TRUE(Put("a", "one").ok());
  const auto replace = [&](const std::string& dataset, int64_t appended, const StoreQuota& quota) {
    ContextRecord record = store_->Get("t", "a").value();
    const std::string etag = EtagOf(record);
    record.digest = ContentDigest(dataset);
    record.dataset_bytes = static_cast<int64_t>(dataset.size());
    record.rows += appended;
    record.appended_rows = appended;
    return store_->Put(record, dataset, quota, Replacement{etag});
  };
  const auto expect = [&](int64_t rows, int64_t appended, const std::string& dataset) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(store_->Get("t", "a")->appended_rows, appended);
      for (const bool with_columns : {false, true}) {
        ContextQuery query;
        query.with_columns = with_columns;
        const absl::StatusOr<ContextPage> page = store_->List("t", query, {10}, "");
        ASSERT_TRUE(page.ok()) << page.status();
        EXPECT_EQ(page->records[0].rows, rows);
        EXPECT_EQ(page->records[0].appended_rows, appended);
      }
      EXPECT_EQ(store_->ReadDataset("t", "a").value(), dataset);
      EXPECT_THAT(FilesBelow(folder_ / "datasets"), testing::SizeIs(1));
      Open();
    }
  };
  // The quota counts the dataset with the appended rows, and not the dataset that it replaces.
  EXPECT_EQ(ExceededQuota(replace("one two", 2, {.dataset_bytes = 6}).status()), "max_dataset_mib");
  expect(42, 0, "one");
  EXPECT_EQ(replace("one two", 2, {.contexts = 1, .dataset_bytes = 7}).value(),
            PutOutcome::kReplaced);
  expect(44, 2, "one two");
  const absl::Time now = absl::FromUnixSeconds(1'900'000'000);
  ASSERT_TRUE(store_->UpdateDetails("t", "a", {.description = "other"}, now).ok());
  ASSERT_TRUE(store_->NoteUses({{"t", "a", now}}).ok());
  expect(44, 2, "one two");
  EXPECT_EQ(replace("ONE TWO", 0, {.contexts = 1, .dataset_bytes = 7}).value(),
            PutOutcome::kReplaced);
  expect(44, 0, "ONE TWO");
}

TEST_F(ContextDetailsTest, ChangesOfDetailsKeepTheMemorySet) {
  ContextRecord record = MakeRecord("t", "a", "one");
  record.memory = {.rows = 64, .policy = MemoryPolicy::kSample};
  ASSERT_TRUE(store_->Put(record, "one").ok());
  EXPECT_EQ(store_->Get("t", "a")->shape(), record.shape());
  EXPECT_EQ(store_->ListNewest(1)->front().shape, record.shape());
  ASSERT_TRUE(store_->UpdateDetails("t", "a", {.description = "other"}, record.updated).ok());
  ASSERT_TRUE(store_->NoteUses({{"t", "a", absl::FromUnixSeconds(1'900'000'000)}}).ok());
  EXPECT_EQ(store_->Get("t", "a")->memory, record.memory);
}

TEST_F(ContextDetailsTest, ADamagedSummaryIsNoticed) {
  const std::pair<const char*, const char*> cases[] = {
      {"a", "UPDATE summaries SET description = 'other'"},
      {"b", "UPDATE summaries SET expires_ns = 1"},
      {"c", "UPDATE summaries SET last_used_ns = 1"},
      {"d", "DELETE FROM summaries"},
      {"e", "UPDATE summaries SET memory_rows = 64"},
      {"f", "UPDATE summaries SET memory_policy = 2"},
      {"g", "UPDATE summaries SET appended_rows = 1"},
  };
  for (const auto& [name, change] : cases) {
    ASSERT_TRUE(Put(name, "one").ok());
    store_.reset();
    absl::StatusOr<std::unique_ptr<SqliteConnection>> database =
        SqliteConnection::Open(folder_ / "contexts.db");
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE((*database)->Execute(absl::StrCat(change, " WHERE name = '", name, "'")).ok());
    database->reset();
    Open();
    EXPECT_EQ(store_->Get("t", name).status().code(), absl::StatusCode::kDataLoss) << change;
    EXPECT_TRUE(store_->Delete("t", name).ok()) << change;
  }
}

TEST_F(ContextDetailsTest, APutIsCheckedWithoutStoringAnything) {
  const ContextRecord one = MakeRecord("t", "a", "one");
  EXPECT_EQ(store_->CheckPut(one, {}).value(), PutOutcome::kCreated);
  EXPECT_EQ(store_->Get("t", "a").status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(Put("a", "one").ok());
  EXPECT_EQ(store_->CheckPut(one, {.contexts = 1}).value(), PutOutcome::kUnchanged);
  EXPECT_EQ(store_->CheckPut(MakeRecord("t", "a", "two"), {}).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ExceededQuota(store_->CheckPut(MakeRecord("t", "b", "two"), {.contexts = 1}).status()),
            "max_contexts");
  ASSERT_TRUE(store_->Close().ok());
  EXPECT_EQ(store_->CheckPut(one, {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace chorale
