// Ends a process at every step of writing and removing a file, and looks at what is left.
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "engine/store/context_files.h"
#include "engine/store/failpoint.h"
#include "gtest/gtest.h"
#include "tests/engine/store/fork_alone.h"
#include "tests/engine/store/kv_from.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

constexpr int64_t kKvBytes = 5 << 20;
constexpr int kEndedAtStep = 7;
const char* last_step = nullptr;

const EncodedContextId kId = {"tenant", "a", "digest", 1, "model", "m", "format", kKvBytes};

ContextFiles::Found KeepAll(const EncodedContextId&) { return ContextFiles::Found::kKeep; }

// Writes the file, then removes it, and ends at a step.
[[noreturn]] void WriteAndRemove(const std::string& folder, const char* step) {
  last_step = step;
  ContextFiles files(folder, 1 << 30);
  if (!files.Open(KeepAll).ok()) _exit(1);
  SetStoreFailpoint([](const char* reached) {
    if (std::string(reached) == last_step) _exit(kEndedAtStep);
    return 0;
  });
  const KvFrom kv(std::vector<char>(kKvBytes, 'x'));
  if (!files.Write(kId, "state", kv, [] { return false; }).ok()) _exit(2);
  files.Remove(kId.tenant, kId.name);
  _exit(0);
}

TEST(ContextFilesCrashTest, AFileIsWholeOrNotThere) {
  for (const char* step : ContextFileSteps()) {
    SCOPED_TRACE(step);
    const TempFolder folder;
    const pid_t child = ForkAlone();
    ASSERT_GE(child, 0);
    if (child == 0) WriteAndRemove(folder / "kv", step);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), kEndedAtStep);

    ContextFiles files(folder / "kv", 1 << 30);
    ASSERT_TRUE(files.Open(KeepAll).ok());
    const std::vector<std::string> left = FilesBelow(folder / "kv");
    EXPECT_EQ(left.size(), files.Has(kId) ? 1u : 0u);
    if (!files.Has(kId)) continue;
    std::vector<char> kv(kKvBytes);
    const absl::StatusOr<std::string> state = files.Read(kId, absl::MakeSpan(kv));
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(*state, "state");
    EXPECT_TRUE(kv == std::vector<char>(kKvBytes, 'x'));
  }
}

}  // namespace
}  // namespace chorale
