#include "engine/store/sqlite_context_store.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/store/context_store_contract.h"
#include "tests/engine/store/make_record.h"
#include "tests/engine/store/store_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class SqlitePlace : public StorePlace {
 public:
  absl::StatusOr<std::unique_ptr<ContextStore>> Open() override {
    return OpenSqliteContextStore(folder_.path());
  }

 private:
  TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, ContextStoreContract,
                         testing::Values(StoreKind{"Sqlite",
                                                   [] { return std::make_unique<SqlitePlace>(); }}),
                         [](const auto& info) { return info.param.name; });

class SqliteContextStoreTest : public StoreFixture {
 protected:
  std::vector<std::string> DatasetFilesOnDisk() { return FilesBelow(folder_ / "datasets"); }
};

// It has the names of contexts and columns.
TEST_F(SqliteContextStoreTest, TheDatabaseIsForItsOwnerOnly) {
  const auto mode_of = [this](const std::string& name) {
    struct stat info = {};
    EXPECT_EQ(stat(std::string(folder_ / name).c_str(), &info), 0) << name;
    return info.st_mode & 0777;
  };
  for (const char* name : {"contexts.db", "contexts.db-wal", "contexts.db-shm"}) {
    EXPECT_EQ(mode_of(name), 0600) << name;
  }
  // One that was made by an earlier version, beside a log that it left.
  store_.reset();
  chmod(std::string(folder_ / "contexts.db").c_str(), 0644);
  Open();
  for (const char* name : {"contexts.db", "contexts.db-wal", "contexts.db-shm"}) {
    EXPECT_EQ(mode_of(name), 0600) << name;
  }
}

TEST_F(SqliteContextStoreTest, OneFilePerTenantAndContent) {
  ASSERT_TRUE(Put("a", "one").ok());
  ASSERT_TRUE(Put("b", "one").ok());
  ASSERT_THAT(DatasetFilesOnDisk(), SizeIs(1));
  const std::string key = DatasetKey("t", ContentDigest("one"));
  EXPECT_EQ(DatasetFilesOnDisk()[0],
            absl::StrCat(folder_ / "datasets/", key.substr(0, 2), "/", key, ".dataset"));
  ASSERT_TRUE(Put("a", "one", "other tenant").ok());
  ASSERT_TRUE(Put("c", "two").ok());
  EXPECT_THAT(DatasetFilesOnDisk(), SizeIs(3));
  for (const char* name : {"a", "b"}) ASSERT_TRUE(store_->Delete("t", name).ok());
  EXPECT_THAT(DatasetFilesOnDisk(), SizeIs(2));
  EXPECT_EQ(store_->ReadDataset("other tenant", "a").value(), "one");
}

TEST_F(SqliteContextStoreTest, QuotasCountATenantsOwn) {
  const auto put = [&](const std::string& name, const std::string& dataset, StoreQuota quota,
                       const std::string& tenant = "t") {
    return ExceededQuota(store_->Put(MakeRecord(tenant, name, dataset), dataset, quota).status());
  };
  EXPECT_EQ(put("a", "12345", {.contexts = 2}), "");
  EXPECT_EQ(put("b", "12345", {.contexts = 2}), "");
  EXPECT_EQ(put("c", "1", {.contexts = 2}), "max_contexts");
  EXPECT_EQ(put("a", "12345", {.contexts = 2}), "") << "it is there already";
  EXPECT_EQ(put("c", "1", {.contexts = 2}, "u"), "");
  // Two contexts of one dataset take its bytes once.
  EXPECT_EQ(put("c", "12345", {.dataset_bytes = 5}), "");
  EXPECT_EQ(put("d", "1", {.dataset_bytes = 5}), "max_dataset_mib");
  EXPECT_EQ(put("d", "1", {.dataset_bytes = 6}), "");
  EXPECT_THAT(DatasetFilesOnDisk(), SizeIs(3)) << "a refused dataset leaves no file";
}

TEST_F(SqliteContextStoreTest, OnlyTheOwnerMayRead) {
  ASSERT_TRUE(Put("a", "one").ok());
  store_.reset();
  TempFolder parent;
  const std::string nested = parent / "x/y/z/";
  absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(nested);
  ASSERT_TRUE(store.ok()) << store.status();
  struct stat info;
  ASSERT_EQ(stat(nested.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  for (const std::string& file : DatasetFilesOnDisk()) {
    ASSERT_EQ(stat(file.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
}

TEST_F(SqliteContextStoreTest, FolderInUse) {
  const absl::Status same_process = OpenSqliteContextStore(folder_.path()).status();
  EXPECT_EQ(same_process.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(same_process.message(), HasSubstr("in use by another process"));
  EXPECT_THAT(same_process.message(), HasSubstr(folder_.path()));
  ASSERT_TRUE(Put("a", "one").ok());
  ASSERT_TRUE(store_->Close().ok());
  EXPECT_TRUE(OpenSqliteContextStore(folder_.path()).ok());
}

TEST_F(SqliteContextStoreTest, OpenSetsAsideWhatNoRecordNames) {
  ASSERT_TRUE(Put("a", "one").ok());
  store_.reset();
  const std::string orphan(64, 'a');
  std::filesystem::create_directory(folder_ / "datasets/aa");
  WriteFile(folder_ / ("datasets/aa/" + orphan + ".dataset"), "left behind");
  WriteFile(folder_ / "datasets/aa/README", "not ours");
  WriteFile(folder_ / "datasets/incoming/half.0", "ha");
  Open();
  EXPECT_THAT(DatasetFilesOnDisk(), SizeIs(2));
  EXPECT_EQ(ReadFile(folder_ / "datasets/aa/README"), "not ours");
  EXPECT_EQ(store_->ReadDataset("t", "a").value(), "one");
  const std::string lost = folder_ / ("lost/" + orphan + ".dataset");
  EXPECT_THAT(FilesBelow(folder_ / "lost"), ElementsAre(lost));
  EXPECT_EQ(ReadFile(lost), "left behind");
  struct stat info;
  ASSERT_EQ(stat((folder_ / "lost").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

// A clock that is wrong once must not cost anybody's data.
TEST_F(SqliteContextStoreTest, WhatWasSetAsideStaysHoweverOldItIs) {
  const std::string orphan(64, 'a');
  const std::string lost = folder_ / ("lost/" + orphan + ".dataset");
  std::filesystem::create_directory(folder_ / "datasets/aa");
  WriteFile(folder_ / ("datasets/aa/" + orphan + ".dataset"), "left behind");
  Open();
  WriteFile(folder_ / "lost/README", "not ours");
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(lost, now - std::chrono::hours(24 * 1000));
  Open();
  EXPECT_THAT(FilesBelow(folder_ / "lost"), SizeIs(2));
  EXPECT_EQ(ReadFile(lost), "left behind");
}

// A client that asks for its data to be removed means all copies.
TEST_F(SqliteContextStoreTest, NoCopySetAsideOutlivesDelete) {
  const std::string key = DatasetKey("t", ContentDigest("one"));
  std::filesystem::create_directory(folder_ / ("datasets/" + key.substr(0, 2)));
  WriteFile(absl::StrCat(folder_ / "datasets/", key.substr(0, 2), "/", key, ".dataset"), "one");
  Open();
  ASSERT_THAT(FilesBelow(folder_ / "lost"), SizeIs(1));
  ASSERT_TRUE(Put("a", "one").ok());
  EXPECT_THAT(FilesBelow(folder_ / "lost"), IsEmpty());
  WriteFile(absl::StrCat(folder_ / "lost/", key, ".dataset"), "one");  // a crash came before
  Open();
  EXPECT_THAT(FilesBelow(folder_ / "lost"), IsEmpty());
  ASSERT_TRUE(store_->Delete("t", "a").ok());
  EXPECT_THAT(DatasetFilesOnDisk(), IsEmpty());
}

TEST_F(SqliteContextStoreTest, DamagedDatasetIsNoticedAndMended) {
  const std::string dataset(5000, 'x');
  ASSERT_TRUE(Put("a", dataset).ok());
  ASSERT_TRUE(Put("b", "other").ok());
  const std::string key = DatasetKey("t", ContentDigest(dataset));
  const std::string path =
      absl::StrCat(folder_ / "datasets/", key.substr(0, 2), "/", key, ".dataset");
  std::string flipped = dataset;
  flipped[2500] ^= 1;
  for (const std::string& damage : {flipped, dataset.substr(1), dataset + "x", std::string()}) {
    WriteFile(path, damage);
    const absl::Status status = store_->ReadDataset("t", "a").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(status.message(), HasSubstr(key));
    Open();
    EXPECT_EQ(store_->ReadDataset("t", "b").value(), "other");
    EXPECT_EQ(*store_->Put(MakeRecord("t", "a", dataset), dataset), PutOutcome::kUnchanged);
    EXPECT_EQ(store_->ReadDataset("t", "a").value(), dataset);
  }
}

TEST_F(SqliteContextStoreTest, MissingDatasetLeavesTheOthersServed) {
  ASSERT_TRUE(Put("a", "one").ok());
  ASSERT_TRUE(Put("b", "two").ok());
  const std::string key = DatasetKey("t", ContentDigest("one"));
  const std::string path =
      absl::StrCat(folder_ / "datasets/", key.substr(0, 2), "/", key, ".dataset");
  ASSERT_TRUE(std::filesystem::remove(path));
  Open();
  EXPECT_TRUE(store_->Get("t", "a").ok());
  EXPECT_EQ(store_->ReadDataset("t", "a").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(store_->ReadDataset("t", "b").value(), "two");
  ASSERT_TRUE(Put("a", "one").ok());
  EXPECT_EQ(store_->ReadDataset("t", "a").value(), "one");
  // And it can be deleted.
  ASSERT_TRUE(std::filesystem::remove(path));
  EXPECT_TRUE(store_->Delete("t", "a").ok());
}

// ---- Files that vanish or change their nature
// ----------------------------------------------------

class VanishingTest : public SqliteContextStoreTest,
                      public testing::WithParamInterface<const char*> {};

TEST_P(VanishingTest, IsNoticedAndNothingIsAcknowledged) {
  ASSERT_TRUE(Put("a", "one").ok());
  EXPECT_TRUE(store_->Health().ok());
  const std::string path = folder_ / GetParam();
  const std::string aside = folder_.path() + ".aside";
  std::filesystem::rename(path, aside);
  for (const bool replaced : {false, true}) {
    if (replaced) {
      std::filesystem::copy(aside, path, std::filesystem::copy_options::recursive);
    }
    for (const absl::Status& status :
         {store_->Health(), Put("b", "two"), store_->Delete("t", "a")}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_EQ(ErrorReasonOf(status), "STORE_LOST");
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr("/")));
    }
    EXPECT_TRUE(store_->Get("t", "a").ok());
  }
  // It was only moved: all is well once it is back.
  std::filesystem::remove_all(path);
  std::filesystem::rename(aside, path);
  EXPECT_TRUE(store_->Health().ok());
  EXPECT_TRUE(Put("b", "two").ok());
  ASSERT_TRUE(store_->Close().ok());
  EXPECT_TRUE(store_->Health().ok());
}

INSTANTIATE_TEST_SUITE_P(Sqlite, VanishingTest,
                         testing::Values("", "contexts.db", "contexts.db-wal", "datasets"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           if (name.empty()) return std::string("Folder");
                           return name == "datasets"      ? name
                                  : name == "contexts.db" ? std::string("Database")
                                                          : std::string("Log");
                         });

TEST_F(SqliteContextStoreTest, WithoutItsLockFileTheFolderIsStillInUse) {
  ASSERT_TRUE(std::filesystem::remove(folder_ / "LOCK"));
  const absl::Status second = OpenSqliteContextStore(folder_.path()).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()), HasSubstr("in use by another process"));
}

TEST_F(SqliteContextStoreTest, SomethingElseInPlaceOfADataset) {
  ASSERT_TRUE(Put("a", "one").ok());
  const std::string path = DatasetFilesOnDisk()[0];
  const auto make = [&](const std::string& what) {
    std::filesystem::remove_all(path);
    if (what == "FIFO") return mkfifo(path.c_str(), 0600);
    if (what == "link") return symlink("/dev/zero", path.c_str());
    if (what == "socket") return mknod(path.c_str(), S_IFSOCK | 0600, 0);
    if (what == "device") return mknod(path.c_str(), S_IFCHR | 0600, makedev(1, 5));
    return mkdir(path.c_str(), 0700);
  };
  for (const std::string what : {"FIFO", "link", "socket", "device", "folder"}) {
    SCOPED_TRACE(what);
    if (make(what) != 0) continue;  // devices are not for everyone
    EXPECT_EQ(store_->ReadDataset("t", "a").status().code(), absl::StatusCode::kDataLoss);
    if (what == "folder") continue;
    EXPECT_TRUE(Put("a", "one").ok());
    EXPECT_EQ(store_->ReadDataset("t", "a").value(), "one");
  }
}

// ---- What deletion leaves
// ------------------------------------------------------------------------

TEST_F(SqliteContextStoreTest, NoNameOutlivesItsDeletion) {
  const auto found_in = [&](const std::string& word) {
    std::vector<std::string> files;
    for (const std::string& file : FilesBelow(folder_.path())) {
      if (absl::StrContains(ReadFile(file), word)) files.push_back(file);
    }
    return files;
  };
  for (int i = 0; i < 30; ++i) {
    ContextRecord record = MakeRecord("t", absl::StrCat("confidential-", i), "rows");
    record.columns[0].name = "classified";
    ASSERT_TRUE(store_->Put(record, "rows").ok());
  }
  EXPECT_THAT(found_in("confidential"), Not(IsEmpty()));
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(store_->Delete("t", absl::StrCat("confidential-", i)).ok());
  }
  EXPECT_TRUE(Eventually(
      [&] { return found_in("confidential").empty() && found_in("classified").empty(); }));
}

}  // namespace
}  // namespace chorale
