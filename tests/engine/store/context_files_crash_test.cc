// Opens what a crash leaves after each system call of a file of keys and values, and makes each of
// these calls fail.
#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/store/context_files.h"
#include "gtest/gtest.h"
#include "spdlog/spdlog.h"
#include "tests/engine/store/kv_from.h"
#include "tests/engine/store/recorded_disk.h"
#include "tests/engine/store/simulated_disk.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

constexpr int64_t kKvBytes = 5 << 20;
const EncodedContextId kId = {"tenant", "a", "digest", 1, "model", "m", "format", kKvBytes};

ContextFiles::Found KeepAll(const EncodedContextId&) { return ContextFiles::Found::kKeep; }

TEST(ContextFilesCrashTest, AFileOfKeysAndValuesIsWholeOrNotThere) {
  spdlog::set_level(spdlog::level::off);
  const WithoutSync without_sync;
  const KvFrom kv(std::vector<char>(kKvBytes, 'x'));
  std::vector<DiskCall> calls;
  int64_t written = 0;
  {
    const TempFolder folder;
    const DiskRecording recording(folder.path());
    ContextFiles files(folder / "kv", 1 << 30);
    ASSERT_TRUE(files.Open(KeepAll).ok());
    ASSERT_TRUE(files.Write(kId, "state", kv, [] { return false; }).ok());
    written = recording.count();
    files.Remove(kId.tenant, kId.name);
    calls = recording.calls();
  }
  SimulatedDisk disk;
  for (size_t done = 0; done <= calls.size(); ++done) {
    if (done > 0) disk.Apply(calls[done - 1]);
    for (const Crash crash : kCrashes) {
      SCOPED_TRACE(absl::StrCat("after call ", done, "; crash ", static_cast<int>(crash)));
      const TempFolder folder;
      WriteImage(disk.After(crash), folder.path());
      ContextFiles files(folder / "kv", 1 << 30);
      ASSERT_TRUE(files.Open(KeepAll).ok());
      EXPECT_EQ(FilesBelow(folder / "kv").size(), files.Has(kId) ? 1 : 0);
      EXPECT_TRUE(files.Has(kId) || static_cast<int64_t>(done) != written);
      if (!files.Has(kId)) continue;
      std::vector<char> read(kKvBytes);
      const absl::StatusOr<std::string> state = files.Read(kId, absl::MakeSpan(read));
      ASSERT_TRUE(state.ok()) << state.status();
      EXPECT_EQ(*state, "state");
      EXPECT_TRUE(read == std::vector<char>(kKvBytes, 'x'));
    }
  }
}

TEST(ContextFilesCrashTest, AWriteThatIsNotWholeIsContinued) {
  spdlog::set_level(spdlog::level::off);
  const TempFolder folder;
  const KvFrom kv(std::vector<char>(kKvBytes, 'x'));
  ContextFiles files(folder / "kv", 1 << 30);
  ASSERT_TRUE(files.Open(KeepAll).ok());
  {
    const ShortWrites short_writes;
    EXPECT_TRUE(files.Write(kId, "state", kv, [] { return false; }).ok());
  }
  std::vector<char> read(kKvBytes);
  EXPECT_TRUE(files.Read(kId, absl::MakeSpan(read)).ok());
  EXPECT_TRUE(read == std::vector<char>(kKvBytes, 'x'));
}

TEST(ContextFilesCrashTest, ACallThatFailsLeavesNoFileOfKeysAndValues) {
  spdlog::set_level(spdlog::level::off);
  const WithoutSync without_sync;
  const KvFrom kv(std::vector<char>(kKvBytes, 'x'));
  bool has_call = true;
  for (int64_t nth = 0; has_call && !testing::Test::HasFailure(); ++nth) {
    SCOPED_TRACE(nth);
    const TempFolder folder;
    ContextFiles files(folder / "kv", 1 << 30);
    ASSERT_TRUE(files.Open(KeepAll).ok());
    int64_t calls = 0;
    std::string failed;
    const BeforeEachCall fail(folder.path(), [&](const std::string& call, const std::string&) {
      if (calls++ != nth) return 0;
      failed = call;
      return ENOSPC;
    });
    const absl::Status status = files.Write(kId, "state", kv, [] { return false; });
    // An earlier file, of which there is none, need not be removed.
    const bool matters = !failed.empty() && failed != "unlink";
    EXPECT_EQ(status.code(),
              matters ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kOk);
    EXPECT_EQ(files.Has(kId), status.ok());
    EXPECT_EQ(files.bytes() > 0, status.ok());
    EXPECT_EQ(FilesBelow(folder / "kv").size(), status.ok() ? 1 : 0);
    has_call = calls > nth;
  }
}

}  // namespace
}  // namespace chorale
