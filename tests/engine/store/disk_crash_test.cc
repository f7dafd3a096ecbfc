// Opens what a crash leaves after each system call of a store, and makes each of these calls fail.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/store/context_store.h"
#include "engine/store/disk_room.h"
#include "engine/store/store_paths.h"
#include "gtest/gtest.h"
#include "spdlog/spdlog.h"
#include "tests/engine/store/recorded_disk.h"
#include "tests/engine/store/simulated_disk.h"
#include "tests/engine/store/stored_contexts.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

// A change that a store acknowledged.
struct Change {
  std::string what;
  int64_t calls = 0;  // of the recording, up to the acknowledgement
  Contexts after;
};

// The life of a store, recorded.
class RecordedStore {
 public:
  RecordedStore() : recording_(folder_.path()) {
    Do("open", [&] { store_ = Open(folder_.path()); });
    PutNew("first", DatasetOf("one"));
    PutNew("second", DatasetOf("two"));
    PutNew("same-content", DatasetOf("two"));
    Do("replace", [&] {
      EXPECT_TRUE(Replace(*store_, "first", DatasetOf("three")).ok());
      contexts_["first"].dataset = DatasetOf("three");
    });
    Do("update details", [&] {
      EXPECT_TRUE(Describe(*store_, "second", "changed").ok());
      contexts_["second"].description = "changed";
    });
    Do("note uses", [&] {
      EXPECT_TRUE(
          store_->NoteUses({{kTenant, "first", absl::FromUnixSeconds(1'900'000'000)}}).ok());
    });
    Delete("second");
    Delete("first");
    Do("empty the log", [&] {
      EXPECT_TRUE(Eventually(
          [&] { return std::filesystem::file_size(folder_ / "data/store/contexts.db-wal") == 0; }));
    });
    PutNew("last", DatasetOf("four"));
    PutNew("table", EncodedTable());
    ChangeTo("append", "table", WithARow);
    ChangeTo("encode anew", "table", EncodedAnew);
    Do("close", [&] { EXPECT_TRUE(store_->Close().ok()); });
    Do("turn into version 1", [&] {
      MakeEarlier(kAsVersion1, folder_.path());
      contexts_ = WithoutDescriptions(contexts_);
    });
    Do("migrate from version 1", [&] { store_ = Open(folder_.path()); });
    PutNew("described", DatasetOf("five"));
    Do("close again", [&] { EXPECT_TRUE(store_->Close().ok()); });
    Do("turn into version 2", [&] { MakeEarlier(kAsVersion2, folder_.path()); });
    Do("migrate from version 2", [&] { store_ = Open(folder_.path()); });
    Do("close once more", [&] { EXPECT_TRUE(store_->Close().ok()); });
    Do("turn into version 3", [&] { MakeEarlier(kAsVersion3, folder_.path()); });
    Do("migrate from version 3", [&] { store_ = Open(folder_.path()); });
    PutNew("reduced", DatasetOf("six"));
    Do("close at last", [&] { EXPECT_TRUE(store_->Close().ok()); });
  }

  const std::vector<Change>& changes() const { return changes_; }
  std::vector<DiskCall> calls() const { return recording_.calls(); }
  const std::string& folder() const { return folder_.path(); }

 private:
  void Do(const std::string& what, const std::function<void()>& change) {
    change();
    changes_.push_back({what, recording_.count(), contexts_});
  }
  void PutNew(const std::string& name, const std::string& dataset) {
    Do("put " + name, [&] {
      EXPECT_TRUE(Put(*store_, name, dataset).ok());
      contexts_[name] = StoredAs(name, dataset);
    });
  }
  void ChangeTo(const std::string& what, const std::string& name, NewContent change) {
    Do(what, [&] {
      EXPECT_TRUE(ChangeContent(*store_, name, change).ok());
      ChangeAlike(change, &contexts_[name]);
    });
  }
  void Delete(const std::string& name) {
    Do("delete " + name, [&] {
      EXPECT_TRUE(store_->Delete(kTenant, name).ok());
      contexts_.erase(name);
    });
  }

  const TempFolder folder_;
  DiskRecording recording_;
  std::unique_ptr<ContextStore> store_;
  Contexts contexts_;
  std::vector<Change> changes_;
};

// What was acknowledged is there, and what was under way is there or not.
void CheckStore(const DiskImage& image, const Contexts& acknowledged, const Contexts& under_way) {
  const TempFolder folder;
  WriteImage(image, folder.path());
  const std::unique_ptr<ContextStore> store = Open(folder.path());
  ASSERT_NE(store, nullptr);
  const Contexts found = ReadAll(*store);
  EXPECT_TRUE(found == acknowledged || found == under_way);
  EXPECT_EQ(FilesOfDatasets(folder.path()), DifferentDatasets(found));
  const std::string dataset = DatasetOf("later");
  EXPECT_TRUE(Put(*store, "later", dataset).ok());
  EXPECT_EQ(store->ReadDataset(kTenant, "later").value_or(""), dataset);
}

TEST(DiskCrashTest, AStoreKeepsWhatItAcknowledged) {
  spdlog::set_level(spdlog::level::off);
  const WithoutSync without_sync;
  const RecordedStore recorded;
  const std::vector<DiskCall> calls = recorded.calls();
  SimulatedDisk disk;
  int64_t images = 0;
  auto next = recorded.changes().begin();
  Contexts acknowledged;
  for (size_t done = 0; done <= calls.size() && !testing::Test::HasFailure(); ++done) {
    if (done > 0) disk.Apply(calls[done - 1]);
    while (next != recorded.changes().end() && next->calls <= static_cast<int64_t>(done)) {
      acknowledged = (next++)->after;
    }
    const bool all = next == recorded.changes().end();
    std::vector<DiskImage> seen;
    for (const Crash crash : kCrashes) {
      DiskImage image = disk.After(crash);
      if (std::find(seen.begin(), seen.end(), image) != seen.end()) continue;
      SCOPED_TRACE(absl::StrCat("during ", all ? "nothing" : next->what, ", after call ", done,
                                ": ", done > 0 ? calls[done - 1].ToString() : "none", "; crash ",
                                static_cast<int>(crash)));
      CheckStore(image, acknowledged, all ? acknowledged : next->after);
      seen.push_back(std::move(image));
      ++images;
    }
  }
  EXPECT_TRUE(disk.After(Crash::kOfTheProcess) == ReadImage(recorded.folder()))
      << "not all changes of the folder were recorded";
  RecordProperty("calls", std::to_string(calls.size()));
  RecordProperty("images", std::to_string(images));
}

TEST(DiskCrashTest, AWriteThatIsNotWholeIsContinued) {
  spdlog::set_level(spdlog::level::off);
  const TempFolder folder;
  {
    const ShortWrites short_writes;
    const std::unique_ptr<ContextStore> store = Open(folder.path());
    ASSERT_NE(store, nullptr);
    EXPECT_TRUE(Put(*store, "a", DatasetOf("one")).ok());
  }
  const std::unique_ptr<ContextStore> store = Open(folder.path());
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(ReadAll(*store) == Contexts({{"a", StoredAs("a", DatasetOf("one"))}}));
}

// A change of a store that has the contexts "kept" and "old".
struct Operation {
  std::string what;
  std::function<absl::Status(ContextStore&)> run;
  std::function<void(Contexts&)> expect;  // changes the contexts alike
};

std::vector<Operation> Operations() {
  return {
      {"put", [](ContextStore& store) { return Put(store, "added", DatasetOf("added")); },
       [](Contexts& contexts) { contexts["added"] = StoredAs("added", DatasetOf("added")); }},
      {"replace", [](ContextStore& store) { return Replace(store, "old", DatasetOf("new")); },
       [](Contexts& contexts) { contexts["old"] = StoredAs("old", DatasetOf("new")); }},
      {"append", [](ContextStore& store) { return ChangeContent(store, "old", WithARow); },
       [](Contexts& contexts) { ChangeAlike(WithARow, &contexts["old"]); }},
      {"update", [](ContextStore& store) { return Describe(store, "old", "described"); },
       [](Contexts& contexts) { contexts["old"].description = "described"; }},
      {"delete", [](ContextStore& store) { return store.Delete(kTenant, "old"); },
       [](Contexts& contexts) { contexts.erase("old"); }},
  };
}

// Makes one call of an operation fail. Returns false if the operation has fewer calls.
bool FailOneCall(const Operation& operation, int64_t nth, int error) {
  const TempFolder folder;
  const std::unique_ptr<ContextStore> store = Open(folder.path());
  if (store == nullptr) return false;
  EXPECT_TRUE(Put(*store, "kept", DatasetOf("kept")).ok());
  EXPECT_TRUE(Put(*store, "old", EncodedTable()).ok());
  const Contexts before = ReadAll(*store);
  Contexts after = before;
  operation.expect(after);
  int64_t calls = 0;            // without those of the thread that empties the log
  bool is_full = error != EIO;  // what the caller is told
  absl::Status status;
  {
    const std::thread::id caller = std::this_thread::get_id();
    const BeforeEachCall fail(folder.path(), [&](const std::string& call, const std::string& path) {
      if (std::this_thread::get_id() != caller || calls++ != nth) return 0;
      // Whether what SQLite could not sync is durable is open.
      if (path.find("data/store/contexts.db") == 0 && call == "fsync") is_full = false;
      return error;
    });
    status = operation.run(*store);
  }
  if (!status.ok()) {
    EXPECT_EQ(status.code(),
              is_full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal)
        << status;
  }
  EXPECT_TRUE(ReadAll(*store) == (status.ok() ? after : before)) << status;
  if (!status.ok() && is_full) {
    EXPECT_EQ(FilesOfDatasets(folder.path()), DifferentDatasets(before));
  }

  // As a crash leaves it: a record whose commit failed in its fsync may prove to be durable.
  const TempFolder copy;
  CopyAtOnce(folder.path(), copy.path());
  const std::unique_ptr<ContextStore> opened = Open(copy.path());
  if (opened == nullptr) return false;
  const Contexts found = ReadAll(*opened);
  EXPECT_TRUE(found == after || (found == before && !status.ok())) << status;
  EXPECT_EQ(FilesOfDatasets(copy.path()), DifferentDatasets(found));
  EXPECT_TRUE(found == after || operation.run(*opened).ok());
  EXPECT_TRUE(ReadAll(*opened) == after);
  return calls > nth;
}

TEST(DiskCrashTest, ACallThatFailsChangesNothingElse) {
  spdlog::set_level(spdlog::level::off);
  const WithoutSync without_sync;
  for (const Operation& operation : Operations()) {
    for (const int error : {ENOSPC, EDQUOT, EIO}) {
      bool failed = true;
      for (int64_t nth = 0; failed && !testing::Test::HasFailure(); ++nth) {
        SCOPED_TRACE(absl::StrCat(operation.what, ", errno ", error, " of call ", nth));
        failed = FailOneCall(operation, nth, error);
      }
    }
  }
}

// Every attempt of the deletion fails. Other processes must not get the space of the reserve.
TEST(DiskCrashTest, ADeletionThatFailsKeepsTheReserve) {
  spdlog::set_level(spdlog::level::off);
  const TempFolder folder;
  const std::unique_ptr<ContextStore> store = Open(folder.path());
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(Put(*store, "a", DatasetOf("one")).ok());
  {
    const BeforeEachCall fail(folder.path(), [](const std::string& call, const std::string& path) {
      return call == "write" && path.find("data/store/contexts.db") == 0 ? ENOSPC : 0;
    });
    EXPECT_TRUE(absl::IsResourceExhausted(store->Delete(kTenant, "a")));
  }
  struct stat reserve = {};
  ASSERT_EQ(stat(StorePaths(StoreIn(folder.path())).reserve.c_str(), &reserve), 0);
  EXPECT_GE(reserve.st_blocks * 512, DiskRoom::kReserveBytes);
  EXPECT_TRUE(store->Delete(kTenant, "a").ok());
}

// Makes one call of the migration of a copy of the store in `old` fail. Returns whether the
// migration has so many calls, and adds to `failures` if it failed.
bool FailMigration(const TempFolder& old, const Contexts& contexts, int64_t nth, int error,
                   int64_t* failures) {
  const TempFolder folder;
  CopyAtOnce(old.path(), folder.path());
  int64_t calls = 0;
  {
    const std::thread::id caller = std::this_thread::get_id();
    const BeforeEachCall fail(folder.path(), [&](const std::string&, const std::string&) {
      return std::this_thread::get_id() == caller && calls++ == nth ? error : 0;
    });
    *failures += OpenSqliteContextStore(StoreIn(folder.path())).ok() ? 0 : 1;
  }
  const std::unique_ptr<ContextStore> opened = Open(folder.path());
  if (opened == nullptr) return false;
  EXPECT_TRUE(ReadAll(*opened) == contexts);
  EXPECT_TRUE(Put(*opened, "reduced", DatasetOf("two")).ok());
  EXPECT_EQ(ReadAll(*opened)["reduced"].memory, StoredAs("reduced", "").memory);
  return calls > nth;
}

// An error during the migration leaves a store that the next start migrates.
TEST(DiskCrashTest, AMigrationThatFailsIsRepeated) {
  spdlog::set_level(spdlog::level::off);
  const WithoutSync without_sync;
  for (const char* const statements : {kAsVersion1, kAsVersion2, kAsVersion3}) {
    const TempFolder old;
    Contexts contexts = {{"a", StoredAs("a", DatasetOf("one"))}};
    {
      const std::unique_ptr<ContextStore> store = Open(old.path());
      ASSERT_NE(store, nullptr);
      EXPECT_TRUE(Put(*store, "a", DatasetOf("one")).ok());
      EXPECT_TRUE(store->Close().ok());
      MakeEarlier(statements, old.path());
    }
    if (statements == kAsVersion1) contexts = WithoutDescriptions(contexts);
    for (const int error : {ENOSPC, EIO}) {
      int64_t failures = 0;
      bool has_call = true;
      for (int64_t nth = 0; has_call && !testing::Test::HasFailure(); ++nth) {
        SCOPED_TRACE(absl::StrCat(statements, ", errno ", error, " of call ", nth));
        has_call = FailMigration(old, contexts, nth, error, &failures);
      }
      EXPECT_GT(failures, 0);
    }
  }
}

}  // namespace
}  // namespace chorale
