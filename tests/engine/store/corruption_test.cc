// Folders that are damaged, foreign or out of reach: a clear answer, never a crash, and never the
// loss of what is still good.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/store/context_store.h"
#include "engine/store/sqlite_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/spdlog.h"
#include "tests/engine/store/fork_alone.h"
#include "tests/engine/store/make_record.h"
#include "tests/support/length.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kContexts = 30;

class CorruptionTest : public testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder_.path());
    ASSERT_TRUE(store.ok()) << store.status();
    for (int i = 0; i < kContexts; ++i) {
      const std::string dataset = absl::StrCat("dataset ", i);
      ASSERT_TRUE(
          (*store)->Put(MakeRecord("t", absl::StrCat("n", i), dataset), dataset).status().ok());
    }
    ASSERT_TRUE((*store)->Close().ok());
    database_ = folder_ / "contexts.db";
    good_ = ReadFile(database_);
    ASSERT_GT(good_.size(), 5u * 4096);
  }
  void TearDown() override { spdlog::set_level(spdlog::level::info); }

  // Opens the store with the database as given. A refusal is one of the two promised, and names the
  // file; a store that opens answers with what was put, or with a status, never with anything else.
  absl::Status OpenWith(const std::string& database) {
    std::filesystem::remove(database_ + "-wal");
    std::filesystem::remove(database_ + "-shm");
    WriteFile(database_, database);
    return OpenAndUse();
  }

  absl::Status OpenAndUse() {
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder_.path());
    if (!store.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(store.status()) || absl::IsFailedPrecondition(store.status()))
          << store.status();
      EXPECT_THAT(store.status().message(), HasSubstr(folder_.path()));
      return store.status();
    }
    (*store)->List("t", {1000}, "").status().IgnoreError();
    for (int i = 0; i < kContexts; ++i) ExpectRightOrRefused(**store, i);
    return absl::OkStatus();
  }

  static void ExpectRightOrRefused(ContextStore& store, int i) {
    const std::string name = absl::StrCat("n", i);
    const std::string dataset = absl::StrCat("dataset ", i);
    const absl::StatusOr<std::string> read = store.ReadDataset("t", name);
    if (read.ok()) {
      EXPECT_EQ(*read, dataset);
    }
    const absl::StatusOr<ContextRecord> record = store.Get("t", name);
    if (!record.ok()) return;
    const ContextRecord expected = MakeRecord("t", name, dataset);
    EXPECT_EQ(record->model, expected.model);
    EXPECT_EQ(record->digest, expected.digest);
    EXPECT_EQ(record->target, expected.target);
    EXPECT_EQ(record->rows, expected.rows);
    EXPECT_EQ(record->dataset_bytes, expected.dataset_bytes);
    EXPECT_EQ(record->created, expected.created);
    ASSERT_EQ(record->columns.size(), expected.columns.size());
    EXPECT_EQ(record->columns[0].missing, expected.columns[0].missing);
    EXPECT_EQ(record->columns[1].name, expected.columns[1].name);
  }

  void ExpectAllThere() {
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder_.path());
    ASSERT_TRUE(store.ok()) << store.status();
    for (int i = 0; i < kContexts; ++i) {
      EXPECT_EQ((*store)->ReadDataset("t", absl::StrCat("n", i)).value(),
                absl::StrCat("dataset ", i));
    }
  }

  TempFolder folder_;
  std::string database_;
  std::string good_;
};

// The datasets outlive a refusal, so that a restored database finds them all.
TEST_F(CorruptionTest, TruncatedDatabase) {
  for (const size_t length :
       {size_t{1}, size_t{16}, size_t{99}, size_t{100}, size_t{512}, size_t{4095}, size_t{4096},
        size_t{4097}, size_t{2 * 4096}, good_.size() / 2, good_.size() - 4096}) {
    const absl::Status status = OpenWith(good_.substr(0, length));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << length << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr("contexts.db"));
  }
  // SQLite takes a page cut short as one that ends in zeros.
  for (const size_t cut : {1, 2, 10, 100, 1000}) {
    OpenWith(good_.substr(0, good_.size() - cut)).IgnoreError();
  }
  EXPECT_TRUE(OpenWith(good_).ok());
  ExpectAllThere();
}

TEST_F(CorruptionTest, EmptyOrMissingDatabaseBesideDatasets) {
  EXPECT_EQ(OpenWith("").code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(std::filesystem::remove(database_));
  const absl::Status missing = OpenAndUse();
  EXPECT_EQ(missing.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(missing.message(), HasSubstr("missing or empty"));
  // A second try must not take the file that the first one may have made for a good one.
  EXPECT_EQ(OpenAndUse().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(OpenWith(good_).ok());
  ExpectAllThere();
}

TEST_F(CorruptionTest, RandomBytesInTheDatabase) {
  std::mt19937_64 random(6);
  const int rounds = FullLength() ? 100 : 30;
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string damaged = good_;
    const size_t start = random() % damaged.size();
    const size_t end = std::min(damaged.size(), start + 1 + random() % 256);
    for (size_t i = start; i < end; ++i) damaged[i] = static_cast<char>(random());
    refused += !OpenWith(damaged).ok();
  }
  EXPECT_GE(refused, rounds / 10);
  // Single flipped bits in what looks like data.
  for (int round = 0; round < rounds; ++round) {
    std::string damaged = good_;
    damaged[random() % damaged.size()] ^= 1 << random() % 8;
    OpenWith(damaged).IgnoreError();
  }
  EXPECT_EQ(OpenWith(std::string(20'000, 'x')).code(), absl::StatusCode::kDataLoss);
  // None of it made a dataset look unneeded.
  EXPECT_TRUE(OpenWith(good_).ok());
  ExpectAllThere();
}

TEST_F(CorruptionTest, GarbageBesideACleanDatabase) {
  std::mt19937_64 random(7);
  for (const size_t length : {size_t{1}, size_t{32}, size_t{5000}, size_t{100'000}}) {
    std::string garbage(length, '\0');
    for (char& byte : garbage) byte = static_cast<char>(random());
    WriteFile(database_ + "-wal", garbage);
    WriteFile(database_ + "-shm", garbage);
    ExpectAllThere();
  }
}

TEST_F(CorruptionTest, OtherVersionsAndOtherPrograms) {
  const auto run = [&](const char* sql) {
    absl::StatusOr<std::unique_ptr<SqliteConnection>> connection =
        SqliteConnection::Open(database_);
    ASSERT_TRUE(connection.ok());
    ASSERT_TRUE((*connection)->Execute(sql).ok());
  };
  run("PRAGMA user_version = 5");
  absl::Status status = OpenAndUse();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("has version 5; this program requires version 4"));

  run("PRAGMA user_version = 4; PRAGMA application_id = 7");
  status = OpenAndUse();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("is not a database of contexts"));

  std::filesystem::remove(database_);
  run("CREATE TABLE somebody_elses (x)");
  status = OpenAndUse();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("is not a database of contexts"));
  EXPECT_THAT(FilesBelow(folder_ / "datasets"), SizeIs(kContexts));
}

TEST_F(CorruptionTest, DamagedListOfColumns) {
  {
    absl::StatusOr<std::unique_ptr<SqliteConnection>> connection =
        SqliteConnection::Open(database_);
    ASSERT_TRUE(connection.ok());
    ASSERT_TRUE((*connection)
                    ->Execute("UPDATE contexts SET columns = '[[[[' WHERE name = 'n1';"
                              "UPDATE contexts SET columns = '[{\"name\": 3}]' WHERE name = 'n2';")
                    .ok());
  }
  absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder_.path());
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->Get("t", "n0").ok());
  for (const char* name : {"n1", "n2"}) {
    const absl::Status status = (*store)->Get("t", name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr(name));
    EXPECT_TRUE((*store)->Delete("t", name).ok());
  }
  EXPECT_TRUE((*store)->List("t", {1000}, "").ok());
}

TEST(UnusableFolderTest, SomethingElseIsInTheWay) {
  TempFolder folder;
  WriteFile(folder / "file", "x");
  std::filesystem::create_directory(folder / "a");
  std::filesystem::create_directory(folder / "a/LOCK");
  std::filesystem::create_directory(folder / "b");
  WriteFile(folder / "b/datasets", "x");
  std::filesystem::create_directories(folder / "c/contexts.db");
  for (const char* path : {"file", "file/below", "a", "b", "c"}) {
    const absl::Status status = OpenSqliteContextStore(folder / path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << path << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr(folder / path));
  }
  EXPECT_EQ(OpenSqliteContextStore("").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(OpenSqliteContextStore(folder / std::string(5000, 'x')).ok());
  EXPECT_FALSE(OpenSqliteContextStore("/proc/no-such-folder").ok());
}

// In a child that gives up the superuser's rights, for which permissions do not count.
int OpenWithoutPermission(const std::string& folder) {
  constexpr uid_t kNobody = 65534;
  if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) return 77;
  for (const std::string& path : {folder, folder + "/below"}) {
    const absl::Status status = OpenSqliteContextStore(path).status();
    if (status.code() != absl::StatusCode::kFailedPrecondition) return 1;
    if (!absl::StrContains(status.message(), path)) return 2;
  }
  return 0;
}

TEST(UnusableFolderTest, NoPermission) {
  TempFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0500), 0);
  const pid_t child = ForkAlone();
  if (child == 0) _exit(OpenWithoutPermission(folder.path()));
  int result = 0;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  ASSERT_EQ(chmod(folder.path().c_str(), 0700), 0);
  ASSERT_TRUE(WIFEXITED(result));
  if (WEXITSTATUS(result) == 77) GTEST_SKIP() << "the superuser's rights cannot be given up here";
  EXPECT_EQ(WEXITSTATUS(result), 0);
}

}  // namespace
}  // namespace chorale
