#include "server/process/reload_trigger.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/eventually.h"

namespace chorale {
namespace {

namespace fs = std::filesystem;

// The signal is tested with the program: here other threads could receive it.
class ReloadTriggerTest : public ::testing::Test {
 protected:
  ReloadTriggerTest() {
    fs::create_directories(folder_ / "a");
    fs::create_directories(folder_ / "b");
    Write(folder_ / "a/file", "1");
    Write(folder_ / "b/file", "2");
  }
  ~ReloadTriggerTest() override { fs::remove_all(folder_); }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  static std::string Read(const std::string& path) {
    std::string text;
    std::ifstream(path) >> text;
    return text;
  }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) / absl::StrCat("chorale-trigger-", getpid());
};

TEST_F(ReloadTriggerTest, AVersionIsThatOfTheFileBehindLinks) {
  EXPECT_EQ(FileVersion(""), "");
  EXPECT_EQ(FileVersion(folder_ / "none"), "");
  fs::create_directory_symlink("a", folder_ / "..data");
  fs::create_symlink("..data/file", folder_ / "file");
  const std::string first = FileVersion(folder_ / "file");
  EXPECT_EQ(first, FileVersion(folder_ / "a/file"));
  EXPECT_EQ(first, FileVersion(folder_ / "file"));
  fs::create_directory_symlink("b", folder_ / "..data_new");
  fs::rename(folder_ / "..data_new", folder_ / "..data");
  EXPECT_EQ(FileVersion(folder_ / "file"), FileVersion(folder_ / "b/file"));
  EXPECT_NE(FileVersion(folder_ / "file"), first);
}

TEST_F(ReloadTriggerTest, EveryVersionIsReadOnce) {
  const std::string file = folder_ / "a/file";
  std::atomic<int> calls{0};
  std::atomic<char> seen{'?'};
  ReloadTrigger trigger(file, FileVersion(file));
  trigger.Start(absl::Milliseconds(2), [&] {
    const std::string text = Read(file);
    seen = text.empty() ? ' ' : text[0];
    ++calls;
  });
  absl::SleepFor(absl::Milliseconds(30));
  EXPECT_EQ(calls, 0);
  for (int version = 2; version < 6; ++version) {
    Write(folder_ / "new", absl::StrCat(version));
    fs::rename(folder_ / "new", file);
    EXPECT_TRUE(Eventually([&] { return calls == version - 1; }));
    EXPECT_EQ(seen, '0' + version);
  }
  fs::remove(file);
  EXPECT_TRUE(Eventually([&] { return calls == 5; }));
  trigger.Stop();
  Write(file, "9");
  absl::SleepFor(absl::Milliseconds(30));
  EXPECT_EQ(calls, 5);
}

TEST_F(ReloadTriggerTest, EveryFileCounts) {
  const std::string file = folder_ / "a/file";
  const std::vector<std::string> others = {folder_ / "tokens", folder_ / "tenants"};
  Write(others[0], "1");
  std::atomic<int> calls{0};
  ReloadTrigger trigger(file, FileVersion(file), others);
  Write(others[1], "a file that was not there");  // before the start, and not lost
  trigger.Start(absl::Milliseconds(2), [&] { ++calls; });
  EXPECT_TRUE(Eventually([&] { return calls == 1; }));
  int expected = 1;
  for (const std::string& changed : {file, others[0], others[1]}) {
    Write(folder_ / "new", "2");
    fs::rename(folder_ / "new", changed);
    ++expected;
    EXPECT_TRUE(Eventually([&] { return calls == expected; })) << changed;
  }
}

TEST_F(ReloadTriggerTest, AChangeBeforeItStartsIsNotLost) {
  const std::string file = folder_ / "a/file";
  std::atomic<int> calls{0};
  ReloadTrigger trigger(file, "of what was read before");
  trigger.Start(absl::Milliseconds(2), [&] { ++calls; });
  EXPECT_TRUE(Eventually([&] { return calls == 1; }));
}

TEST_F(ReloadTriggerTest, ACallbackCanEndEarlyWhenAStopIsRequested) {
  const std::string file = folder_ / "a/file";
  std::atomic<int> calls{0};
  ReloadTrigger trigger(file, "of what was read before");
  EXPECT_FALSE(trigger.stop_requested());
  trigger.Start(absl::Milliseconds(2), [&] {
    ++calls;
    EXPECT_TRUE(Eventually([&] { return trigger.stop_requested(); }));
  });
  EXPECT_TRUE(Eventually([&] { return calls == 1; }));
  trigger.RequestStop();
  Write(file, "9");
  trigger.Stop();
  EXPECT_EQ(calls, 1);
}

TEST_F(ReloadTriggerTest, WithoutAFileNothingHappens) {
  std::atomic<int> calls{0};
  {
    ReloadTrigger trigger("", "");
    trigger.Start(absl::Milliseconds(1), [&] { ++calls; });
    absl::SleepFor(absl::Milliseconds(20));
  }
  ReloadTrigger never_started("", "");
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace chorale
