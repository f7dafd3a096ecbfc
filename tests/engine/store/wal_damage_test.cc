// What a store makes of a damaged write-ahead log after a stop without a goodbye: all that was
// acknowledged before the damage, or a refusal; never half a record.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/store/context_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/spdlog.h"
#include "tests/engine/store/make_record.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kContexts = 8;

std::string NameOf(int i) { return absl::StrCat("n", i); }
std::string DatasetOf(int i) { return absl::StrCat("dataset ", i); }

std::string RandomBytes(size_t length, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(length, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

class WalDamageTest : public testing::Test {
 protected:
  // The files of a store that is open count as those of one that was killed.
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    const TempFolder folder;
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder.path());
    ASSERT_TRUE(store.ok()) << store.status();
    const std::string database = folder / "contexts.db";
    schema_end_ = std::filesystem::file_size(database + "-wal");
    for (int i = 0; i < kContexts; ++i) {
      ASSERT_TRUE((*store)->Put(MakeRecord("t", NameOf(i), DatasetOf(i)), DatasetOf(i)).ok());
      ends_.push_back(std::filesystem::file_size(database + "-wal"));
    }
    database_ = ReadFile(database);
    wal_ = ReadFile(database + "-wal");
    shm_ = ReadFile(database + "-shm");
    ASSERT_EQ(wal_.size(), ends_.back()) << "no checkpoint has come between";
    std::filesystem::copy(folder / "datasets", saved_ / "datasets",
                          std::filesystem::copy_options::recursive);
  }
  void TearDown() override { spdlog::set_level(spdlog::level::info); }

  // Opens a store with this log and this index of it. How many contexts are there: the first so
  // many, each of them whole, and no other one.
  absl::StatusOr<int> Recover(const std::string& wal, const std::string& shm) {
    const TempFolder folder;
    const std::string database = folder / "contexts.db";
    WriteFile(database, database_);
    WriteFile(database + "-wal", wal);
    WriteFile(database + "-shm", shm);
    std::filesystem::copy(saved_ / "datasets", folder / "datasets",
                          std::filesystem::copy_options::recursive);
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder.path());
    if (!store.ok()) {
      EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss) << store.status();
      EXPECT_THAT(store.status().message(), HasSubstr(database));
      EXPECT_THAT(FilesBelow(folder / "datasets"), SizeIs(kContexts));
      return store.status();
    }
    return CountWholeContexts(**store);
  }

  static int CountWholeContexts(ContextStore& store) {
    int count = 0;
    for (; count < kContexts; ++count) {
      const absl::StatusOr<ContextRecord> record = store.Get("t", NameOf(count));
      if (!record.ok()) break;
      const ContextRecord expected = MakeRecord("t", NameOf(count), DatasetOf(count));
      EXPECT_EQ(record->digest, expected.digest);
      EXPECT_EQ(record->columns.size(), expected.columns.size());
      EXPECT_EQ(record->created, expected.created);
      EXPECT_EQ(store.ReadDataset("t", NameOf(count)).value_or(""), DatasetOf(count));
    }
    for (int i = count; i < kContexts; ++i) {
      EXPECT_EQ(store.Get("t", NameOf(i)).status().code(), absl::StatusCode::kNotFound) << i;
    }
    return count;
  }

  // The log is good up to where it differs from the one that was written: exactly what was
  // acknowledged by then is there. Without a schema there is no store to open.
  void ExpectAllBeforeTheDamage(const std::string& wal) {
    const size_t damage =
        std::mismatch(wal.begin(), wal.end(), wal_.begin(), wal_.end()).first - wal.begin();
    const absl::StatusOr<int> found = Recover(wal, shm_);
    ASSERT_EQ(found.ok(), damage >= schema_end_) << damage << ": " << found.status();
    if (!found.ok()) return;
    EXPECT_EQ(*found, std::count_if(ends_.begin(), ends_.end(), [damage](size_t end) {
      return end <= damage;
    })) << damage;
  }

  const TempFolder saved_;
  std::string database_;
  std::string wal_;
  std::string shm_;
  size_t schema_end_ = 0;     // of the log, when the store was new
  std::vector<size_t> ends_;  // of the log, when each context was acknowledged
};

TEST_F(WalDamageTest, UndamagedItHasEverything) { ExpectAllBeforeTheDamage(wal_); }

TEST_F(WalDamageTest, CutShort) {
  for (const size_t length : {size_t{0}, size_t{1}, size_t{31}, size_t{32}, size_t{33},
                              schema_end_ - 1, schema_end_, schema_end_ + 1}) {
    ExpectAllBeforeTheDamage(wal_.substr(0, length));
  }
  for (const size_t end : {ends_.front(), ends_[kContexts / 2], ends_.back()}) {
    for (const size_t length : {end - 4096, end - 1, end, end + 1}) {
      ExpectAllBeforeTheDamage(wal_.substr(0, length));
    }
  }
}

TEST_F(WalDamageTest, AFlippedByte) {
  std::mt19937_64 random(8);
  std::vector<size_t> offsets = {0, 8, 16, 24, 31, schema_end_, schema_end_ + 4, schema_end_ + 23};
  for (int i = 0; i < 12; ++i) offsets.push_back(random() % wal_.size());
  for (const size_t offset : offsets) {
    std::string damaged = wal_;
    damaged[offset] = static_cast<char>(damaged[offset] ^ (1 + random() % 255));
    ExpectAllBeforeTheDamage(damaged);
  }
}

TEST_F(WalDamageTest, Zeros) {
  ExpectAllBeforeTheDamage(std::string(wal_.size(), '\0'));
  std::mt19937_64 random(9);
  for (int i = 0; i < 6; ++i) {
    const size_t begin = random() % wal_.size();
    std::string damaged = wal_;
    std::fill(damaged.begin() + static_cast<std::ptrdiff_t>(begin), damaged.end(), '\0');
    ExpectAllBeforeTheDamage(damaged);
    damaged = wal_;
    damaged.replace(begin, 512, std::string(512, '\0')).resize(wal_.size());  // a sector in between
    ExpectAllBeforeTheDamage(damaged);
  }
}

// The datasets of contexts that went with the log are kept: once the operator has put a good copy
// of the database in offset, everything is there again.
TEST_F(WalDamageTest, DatasetsOfLostContextsAreFoundAgain) {
  const TempFolder folder;
  WriteFile(folder / "contexts.db", database_);
  WriteFile(folder / "contexts.db-wal", wal_.substr(0, ends_[2] + 100));
  std::filesystem::copy(saved_ / "datasets", folder / "datasets",
                        std::filesystem::copy_options::recursive);
  for (int start = 0; start < 2; ++start) {
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder.path());
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(CountWholeContexts(**store), 3);
    EXPECT_THAT(FilesBelow(folder / "datasets"), SizeIs(3));
    EXPECT_THAT(FilesBelow(folder / "lost"), SizeIs(kContexts - 3));
  }
  WriteFile(folder / "contexts.db", database_);
  WriteFile(folder / "contexts.db-wal", wal_);
  absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder.path());
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(CountWholeContexts(**store), kContexts);
  EXPECT_THAT(FilesBelow(folder / "lost"), SizeIs(0));
}

// It is a store like any other from there on, also for the next start.
TEST_F(WalDamageTest, AfterwardsItGoesOn) {
  const TempFolder folder;
  WriteFile(folder / "contexts.db", database_);
  WriteFile(folder / "contexts.db-wal", wal_.substr(0, ends_[2] + 100));
  for (int start = 0; start < 3; ++start) {
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder.path());
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->List("t", {1000}, "")->records.size(), 3u + start);
    const std::string name = absl::StrCat("new", start);
    EXPECT_TRUE((*store)->Put(MakeRecord("t", name, name), name).ok());
    EXPECT_EQ((*store)->ReadDataset("t", name).value_or(""), name);
  }
}

// What a file system may leave behind the end.
TEST_F(WalDamageTest, GarbageBehindTheEnd) {
  ExpectAllBeforeTheDamage(wal_ + RandomBytes(10'000, 10));
  ExpectAllBeforeTheDamage(wal_ + std::string(10'000, '\0'));
  ExpectAllBeforeTheDamage(wal_ + wal_.substr(32));  // frames of another time
}

// The log's index is shared memory: its contents are not trusted after a stop.
TEST_F(WalDamageTest, TheIndexOfTheLogIsGarbage) {
  for (const size_t length : {size_t{0}, size_t{136}, shm_.size()}) {
    EXPECT_EQ(Recover(wal_, RandomBytes(length, length)).value_or(-1), kContexts) << length;
    EXPECT_EQ(Recover(wal_, std::string(length, '\0')).value_or(-1), kContexts) << length;
  }
  std::mt19937_64 random(11);
  for (int i = 0; i < 6; ++i) {
    std::string damaged = shm_;
    damaged[random() % 256] ^= 1 << random() % 8;  // its header and the first offsets
    EXPECT_EQ(Recover(wal_, damaged).value_or(-1), kContexts) << i;
  }
}

}  // namespace
}  // namespace chorale
