// A store on a disk that is full.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error_details.h"
#include "engine/store/context_files.h"
#include "engine/store/context_store.h"
#include "gtest/gtest.h"
#include "tests/engine/store/fork_alone.h"
#include "tests/engine/store/kv_from.h"
#include "tests/engine/store/make_record.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

// Runs `body` in a process of its own, in which `folder` is a file system of 4 MiB. It returns 0,
// or the number of the expectation that failed.
void OnSmallDisk(int (*body)(const std::string& folder)) {
  TempFolder mount_point;
  const std::string& folder = mount_point.path();
  const pid_t child = ForkAlone();
  if (child == 0) {
    const bool mounted = unshare(CLONE_NEWNS) == 0 &&
                         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=4m") == 0;
    _exit(mounted ? body(folder) : 77);
  }
  int result = 0;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  ASSERT_TRUE(WIFEXITED(result));
  if (WEXITSTATUS(result) == 77) GTEST_SKIP() << "mounting a small disk is not permitted here";
  EXPECT_EQ(WEXITSTATUS(result), 0);
}

std::string DatasetOf(int number) { return std::string(50'000, static_cast<char>(number)); }

absl::Status PutNumber(ContextStore& store, int number) {
  const std::string dataset = DatasetOf(number);
  return store.Put(MakeRecord("t", absl::StrCat("n", number), dataset), dataset).status();
}

// Puts until that fails, returns with why, and how many were put.
absl::Status PutUntilFull(ContextStore& store, int* stored) {
  for (; *stored < 1000; ++*stored) {
    if (absl::Status status = PutNumber(store, *stored); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Takes every byte that is left.
void FillUp(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const std::string bytes(4096, 'x');
  for (size_t chunk = bytes.size(); chunk > 0;) {
    if (write(file, bytes.data(), chunk) <= 0) chunk /= 2;
  }
  close(file);
}

TEST(SmallDiskTest, WhatWasStoredStays) {
  OnSmallDisk([](const std::string& folder) {
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder);
    if (!store.ok()) return 1;
    int stored = 0;
    const absl::Status status = PutUntilFull(**store, &stored);
    if (status.code() != absl::StatusCode::kResourceExhausted) return 2;
    if (stored == 0 || FilesBelow(folder + "/datasets").size() != static_cast<size_t>(stored)) {
      return 3;
    }
    for (int i = 0; i < stored; ++i) {
      const absl::StatusOr<std::string> read = (*store)->ReadDataset("t", absl::StrCat("n", i));
      if (!read.ok() || *read != DatasetOf(i)) return 4;
    }
    // Deleting makes room again: for what was deleted, and for the reserve and as much again. The
    // log of the database is emptied a moment later if that failed while the disk was full.
    for (int i = 0; i < stored; ++i) {
      if (!(*store)->Delete("t", absl::StrCat("n", i)).ok()) return 5;
    }
    return Eventually([&] { return PutNumber(**store, 0).ok(); }) ? 0 : 6;
  });
}

TEST(SmallDiskTest, DeletesWithoutOneByteLeft) {
  OnSmallDisk([](const std::string& folder) {
    int stored = 0;
    {
      absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder);
      if (!store.ok()) return 1;
      PutUntilFull(**store, &stored).IgnoreError();
      FillUp(folder + "/other");
      if (!(*store)->Delete("t", "n0").ok()) return 2;
      FillUp(folder + "/other");
      if (!(*store)->Delete("t", "n1").ok()) return 3;
      FillUp(folder + "/other");
    }
    // And by a server that starts on a full disk.
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder);
    if (!store.ok()) return 4;
    for (int i = 2; i < stored; ++i) {
      FillUp(folder + "/other");
      if (!(*store)->Delete("t", absl::StrCat("n", i)).ok()) return 5;
    }
    return (*store)->Totals()->contexts == 0 ? 0 : 6;
  });
}

// Between two deletions, others take every byte that becomes free, while the log is emptied in the
// background. The reserve is not among these bytes.
TEST(SmallDiskTest, KeepsItsReserveBetweenDeletions) {
  OnSmallDisk([](const std::string& folder) {
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder);
    if (!store.ok()) return 1;
    int stored = 0;
    PutUntilFull(**store, &stored).IgnoreError();
    for (int i = 0; i < 3; ++i) {
      for (int round = 0; round < 70; ++round) {
        FillUp(folder + "/other");
        absl::SleepFor(absl::Milliseconds(10));
      }
      if (!(*store)->Delete("t", absl::StrCat("n", i)).ok()) return 2 + i;
    }
    return 0;
  });
}

TEST(SmallDiskTest, OpensWithItsReserveButWithoutAnotherByte) {
  OnSmallDisk([](const std::string& folder) {
    {
      absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder);
      if (!store.ok() || !PutNumber(**store, 0).ok()) return 1;
    }
    FillUp(folder + "/other");
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder);
    if (!store.ok()) return 2;
    if (!(*store)->Totals()->disk_full) return 3;
    if (!(*store)->ReadDataset("t", "n0").ok()) return 4;
    return (*store)->Delete("t", "n0").ok() ? 0 : 5;
  });
}

TEST(SmallDiskTest, AFullDiskIsAStateThatEnds) {
  OnSmallDisk([](const std::string& folder) {
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder);
    if (!store.ok()) return 1;
    if ((*store)->Totals()->disk_full) return 2;
    int stored = 0;
    FillUp(folder + "/other");
    const absl::Status first = PutUntilFull(**store, &stored);
    if (stored != 0 || !(*store)->Totals()->disk_full) return 3;
    const absl::Status second = PutNumber(**store, 0);
    for (const absl::Status& status : {first, second}) {
      if (status.code() != absl::StatusCode::kResourceExhausted) return 4;
      if (ErrorReasonOf(status) != "DISK_FULL") return 5;
      if (RetryDelay(status) <= absl::ZeroDuration()) return 6;
      if (status.message().find('/') != absl::string_view::npos) return 7;
    }
    if (unlink((folder + "/other").c_str()) != 0) return 8;
    if (!PutNumber(**store, 0).ok()) return 9;
    if ((*store)->Totals()->disk_full) return 10;
    // What is there already needs no room.
    FillUp(folder + "/other");
    PutUntilFull(**store, &stored).IgnoreError();
    return PutNumber(**store, 0).ok() ? 0 : 11;
  });
}

EncodedContextId EncodedNumber(const std::string& tenant, int number) {
  return {tenant, absl::StrCat("n", number), "digest", 1, "model", "model-digest", "format",
          200'000};
}

absl::Status WriteEncoded(ContextFiles& files, const std::string& tenant, int number) {
  return files.Write(EncodedNumber(tenant, number), "state",
                     KvFrom(std::vector<char>(200'000, 'k')), [] { return false; });
}

int64_t FreeBytes(const std::string& folder) {
  struct statvfs disk;
  return statvfs(folder.c_str(), &disk) == 0 ? static_cast<int64_t>(disk.f_bavail * disk.f_frsize)
                                             : -1;
}

// What can be encoded again makes room for what cannot be had again.
TEST(SmallDiskTest, EncodedContextsMakeRoomForTables) {
  OnSmallDisk([](const std::string& folder) {
    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder);
    if (!store.ok()) return 1;
    ContextFiles files(folder + "/kv", int64_t{1} << 30);
    const auto keep = [](const EncodedContextId&) { return ContextFiles::Found::kKeep; };
    if (!files.Open(keep).ok()) return 2;
    // The newest replace the oldest, and leave the disk its margin.
    for (int i = 0; i < 30; ++i) {
      if (!WriteEncoded(files, "t", i).ok()) return 3;
      if (FreeBytes(folder) < DiskMargin(4 << 20)) return 4;
    }
    if (files.Has(EncodedNumber("t", 0)) || !files.Has(EncodedNumber("t", 29))) return 5;
    if (files.bytes() < 1'000'000) return 6;
    FillUp(folder + "/other");
    if (PutNumber(**store, 0).code() != absl::StatusCode::kResourceExhausted) return 7;
    (*store)->UseFreeDisk([&](int64_t bytes) { return files.FreeDisk(bytes); });
    if (!PutNumber(**store, 0).ok()) return 8;
    if ((*store)->Totals()->disk_full) return 9;
    // Until there are no more.
    int stored = 1;
    const absl::Status full = PutUntilFull(**store, &stored);
    if (full.code() != absl::StatusCode::kResourceExhausted || ErrorReasonOf(full) != "DISK_FULL") {
      return 10;
    }
    return files.bytes() == 0 && stored > 10 ? 0 : 11;
  });
}

}  // namespace
}  // namespace chorale
