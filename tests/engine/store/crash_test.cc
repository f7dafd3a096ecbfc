// Kills a process that uses a store at random moments, and looks at what is left.
//
// The child reports over a pipe each attempt and each acknowledgement. The parent keeps the
// same account and holds the store to it. This program starts no thread, so that it may fork.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/data/dataset_codec.h"
#include "engine/store/context_store.h"
#include "engine/store/dataset_files.h"
#include "gtest/gtest.h"
#include "spdlog/spdlog.h"
#include "tests/engine/store/fork_alone.h"
#include "tests/engine/store/make_record.h"
#include "tests/support/length.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

constexpr char kTenant[] = "t";
constexpr uint64_t kNames = 12;
constexpr uint64_t kContents = 8;

// One of a few contents, some shared by several names; 1 byte to 60 KB.
std::string Content(uint64_t number) {
  std::mt19937_64 random(number);
  std::string bytes(1 + number * number * 1000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// A line of the child's report: "put 3 5", "delete 3", each followed by "done" once acknowledged.
void Say(int pipe, const std::string& line) {
  const std::string text = line + "\n";
  if (write(pipe, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(3);
}

std::string NameOf(uint64_t number) { return absl::StrCat("n", number); }

// Puts and deletes forever.
[[noreturn]] void Churn(const std::string& folder, uint64_t seed, int pipe) {
  absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder);
  if (!store.ok()) _exit(1);
  Say(pipe, "open");
  std::mt19937_64 random(seed);
  while (true) {
    const uint64_t name = random() % kNames;
    if (random() % 4 == 0) {
      Say(pipe, absl::StrCat("delete ", name));
      const absl::Status status = (*store)->Delete(kTenant, NameOf(name));
      if (!status.ok() && !absl::IsNotFound(status)) _exit(2);
      Say(pipe, "done");
      continue;
    }
    const uint64_t number = random() % kContents;
    const std::string content = Content(number);
    Say(pipe, absl::StrCat("put ", name, " ", number));
    const absl::Status status =
        (*store)->Put(MakeRecord(kTenant, NameOf(name), content), content).status();
    if (!status.ok() && !absl::IsAlreadyExists(status)) _exit(2);
    Say(pipe, status.ok() ? "done" : "taken");
  }
}

// What must be in the store, and the one operation that was under way, if any.
class Account {
 public:
  void Read(const std::string& line) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "done") {
      Apply(present_);
      ++acknowledged_;
    }
    pending_.clear();
    if (words[0] == "put" || words[0] == "delete") pending_ = words;
  }

  // Either state is right after a kill: without the pending operation, or with it.
  void Verify(ContextStore& store, const std::string& folder) {
    std::map<std::string, uint64_t> with_pending = present_;
    Apply(with_pending);
    absl::StatusOr<ContextPage> page = store.List(kTenant, {1000}, "");
    ASSERT_TRUE(page.ok()) << page.status();
    std::map<std::string, uint64_t> found;
    std::set<std::string> keys;
    for (const ContextRecord& record : page->records) {
      absl::StatusOr<std::string> dataset = store.ReadDataset(kTenant, record.name);
      ASSERT_TRUE(dataset.ok()) << dataset.status();
      uint64_t number = 0;
      while (number < kContents && *dataset != Content(number)) ++number;
      ASSERT_LT(number, kContents) << "no content that was ever put";
      found[record.name] = number;
      keys.insert(DatasetKey(kTenant, record.digest));
    }
    EXPECT_TRUE(found == present_ || found == with_pending);
    present_ = found;
    pending_.clear();
    // Nothing but the files that records name.
    EXPECT_EQ(FilesBelow(folder + "/datasets").size(), keys.size());
    EXPECT_TRUE(FilesBelow(folder + "/datasets/incoming").empty());
  }

  int acknowledged() const { return acknowledged_; }

 private:
  void Apply(std::map<std::string, uint64_t>& contexts) const {
    if (pending_.empty()) return;
    uint64_t name = 0;
    uint64_t content = 0;
    ASSERT_TRUE(absl::SimpleAtoi(pending_[1], &name));
    if (pending_[0] == "delete") {
      contexts.erase(NameOf(name));
    } else {
      ASSERT_TRUE(absl::SimpleAtoi(pending_[2], &content));
      // A put that met other content under the name changes nothing.
      contexts.emplace(NameOf(name), content);
    }
  }

  std::map<std::string, uint64_t> present_;  // content by name
  std::vector<std::string> pending_;
  int acknowledged_ = 0;
};

// Runs `body` in a child with the writing end of a pipe.
pid_t Fork(const std::function<void(int)>& body, int& reading_end) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  const pid_t child = ForkAlone();
  if (child == 0) {
    close(ends[0]);
    body(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  reading_end = ends[0];
  return child;
}

// The next complete line, or nothing at the end. A line cut short by the kill is dropped.
std::optional<std::string> ReadLine(int pipe) {
  std::string line;
  char c;
  while (read(pipe, &c, 1) == 1) {
    if (c == '\n') return line;
    line.push_back(c);
  }
  return std::nullopt;
}

TEST(CrashTest, KilledAtRandomMoments) {
  spdlog::set_level(spdlog::level::warn);
  TempFolder folder;
  Account account;
  std::mt19937_64 random(5);
  const int rounds = FullLength() ? 10 : 3;
  for (int round = 0; round < rounds; ++round) {
    int pipe = -1;
    const pid_t child = Fork([&](int end) { Churn(folder.path(), round, end); }, pipe);
    // A kill now and then while the store is still opening, else after some operations.
    const int lines = static_cast<int>(random() % 40);
    for (int i = 0; i < lines; ++i) {
      const std::optional<std::string> line = ReadLine(pipe);
      ASSERT_TRUE(line.has_value()) << "the child ended by itself";
      account.Read(*line);
    }
    usleep(static_cast<useconds_t>(random() % 10'000));
    kill(child, SIGKILL);
    int result = 0;
    ASSERT_EQ(waitpid(child, &result, 0), child);
    ASSERT_TRUE(WIFSIGNALED(result)) << "the child ended with " << WEXITSTATUS(result);
    while (const std::optional<std::string> line = ReadLine(pipe)) account.Read(*line);
    close(pipe);

    absl::StatusOr<std::unique_ptr<ContextStore>> store = OpenSqliteContextStore(folder.path());
    ASSERT_TRUE(store.ok()) << store.status();
    account.Verify(**store, folder.path());
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(account.acknowledged(), 2 * rounds);
}

}  // namespace
}  // namespace chorale
