#include "engine/store/context_files.h"

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/engine/store/kv_from.h"
#include "tests/engine/store/recorded_disk.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

constexpr int64_t kKvBytes = 9 << 20;  // more than is written at once
constexpr int64_t kLimit = 3 * kKvBytes + (1 << 20);

class ContextFilesTest : public ::testing::Test {
 protected:
  ContextFilesTest() { Reopen(); }

  void Reopen(int64_t limit = kLimit, ContextFiles::Found found = ContextFiles::Found::kKeep) {
    files_ = std::make_unique<ContextFiles>(folder_ / "kv", limit);
    const absl::Status opened = files_->Open([found](const EncodedContextId&) { return found; });
    ASSERT_TRUE(opened.ok()) << opened;
  }
  static EncodedContextId IdOf(const std::string& name, const std::string& tenant = "tenant") {
    return {tenant,  name,           "digest", 1234567890123456789,
            "model", "model-digest", "format", kKvBytes};
  }
  static std::vector<char> KvOf(const std::string& name) {
    std::vector<char> kv(kKvBytes);
    for (size_t i = 0; i < kv.size(); ++i) kv[i] = static_cast<char>(name[0] + i * i / 7);
    return kv;
  }
  absl::Status Write(const std::string& name, const std::string& tenant = "tenant") {
    return files_->Write(IdOf(name, tenant), "state of " + name, KvFrom(KvOf(name)),
                         [] { return false; });
  }
  // Whether the file of this id can be read; if so, it is right.
  bool Reads(const EncodedContextId& id) {
    std::vector<char> kv(kKvBytes);
    const absl::StatusOr<std::string> state = files_->Read(id, absl::MakeSpan(kv));
    if (!state.ok()) return false;
    EXPECT_EQ(*state, "state of " + id.name);
    EXPECT_TRUE(kv == KvOf(id.name));
    return true;
  }
  std::vector<std::string> OnDisk() const { return FilesBelow(folder_ / "kv"); }

  TempFolder folder_;
  std::unique_ptr<ContextFiles> files_;
};

TEST_F(ContextFilesTest, WhatIsWrittenIsReadAlsoAfterARestart) {
  EXPECT_FALSE(files_->Has(IdOf("a")));
  ASSERT_TRUE(Write("a").ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(files_->Has(IdOf("a")));
    EXPECT_TRUE(Reads(IdOf("a")));
    EXPECT_EQ(files_->bytes(), static_cast<int64_t>(std::filesystem::file_size(OnDisk().at(0))));
    Reopen();
  }
  ASSERT_TRUE(Write("a").ok()) << "again";
  EXPECT_TRUE(Reads(IdOf("a")));
  EXPECT_EQ(OnDisk().size(), 1u);
}

TEST_F(ContextFilesTest, AForeignFileIsNeitherFoundNorReadAndGoes) {
  std::vector<EncodedContextId> others(6, IdOf("a"));
  others[0].dataset = "other";
  others[1].created_ns += 1;
  others[2].model = "other";
  others[3].model_digest = "other";
  others[4].kv_format = "other";
  others[5].kv_format = "";
  for (const EncodedContextId& other : others) {
    ASSERT_TRUE(Write("a").ok());
    EXPECT_FALSE(files_->Has(other));
    EXPECT_FALSE(Reads(other));
    EXPECT_TRUE(OnDisk().empty());
    EXPECT_EQ(files_->bytes(), 0);
  }
}

TEST_F(ContextFilesTest, ATornFileIsNeverRead) {
  ASSERT_TRUE(Write("a").ok());
  const std::string path = OnDisk().at(0);
  const std::string whole = ReadFile(path);
  for (const size_t bytes : {size_t{0}, size_t{5}, size_t{30}, size_t{300}, whole.size() / 2,
                             whole.size() - 32, whole.size() - 1}) {
    SCOPED_TRACE(bytes);
    WriteFile(path, whole.substr(0, bytes));
    EXPECT_FALSE(Reads(IdOf("a")));  // torn while it is open
    EXPECT_TRUE(OnDisk().empty());
    WriteFile(path, whole.substr(0, bytes));
    Reopen();
    EXPECT_FALSE(files_->Has(IdOf("a")));
    EXPECT_TRUE(OnDisk().empty());
  }
  WriteFile(path, whole + "x");
  EXPECT_FALSE(Reads(IdOf("a")));
}

TEST_F(ContextFilesTest, ADamagedFileIsNeverRead) {
  ASSERT_TRUE(Write("a").ok());
  const std::string path = OnDisk().at(0);
  const std::string whole = ReadFile(path);
  // In the magic, the lengths, the head, the state, the keys and values, the checksum.
  const size_t state = whole.find("state of");
  for (const size_t at : {size_t{0}, size_t{14}, size_t{22}, size_t{35}, size_t{60}, state,
                          state + 100, whole.size() / 2, whole.size() - 33, whole.size() - 1}) {
    SCOPED_TRACE(at);
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    WriteFile(path, damaged);
    Reopen();
    EXPECT_FALSE(Reads(IdOf("a")));
    EXPECT_TRUE(OnDisk().empty());
  }
}

TEST_F(ContextFilesTest, AFileUnderAnotherNameIsRemoved) {
  ASSERT_TRUE(Write("a").ok());
  const std::string path = OnDisk().at(0);
  std::filesystem::rename(path, folder_ / "kv/0123.kv");
  WriteFile(folder_ / "kv/not-ours.txt", "keep me");
  Reopen();
  ASSERT_EQ(OnDisk().size(), 1u);
  EXPECT_TRUE(absl::EndsWith(OnDisk()[0], "not-ours.txt"));
  EXPECT_EQ(files_->bytes(), 0);
}

TEST_F(ContextFilesTest, WhatNobodyWillAskForGoesWhenItIsOpened) {
  ASSERT_TRUE(Write("a").ok());
  Reopen(kLimit, ContextFiles::Found::kRemove);
  EXPECT_TRUE(OnDisk().empty());
  EXPECT_EQ(files_->bytes(), 0);
}

TEST_F(ContextFilesTest, TheLeastRecentlyUsedMakeRoom) {
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(Write(name).ok());
  EXPECT_TRUE(Reads(IdOf("a")));
  ASSERT_TRUE(Write("d").ok());
  EXPECT_FALSE(files_->Has(IdOf("b")));
  EXPECT_FALSE(Reads(IdOf("b")));
  EXPECT_LE(files_->bytes(), kLimit);
  // The order survives a restart, and so does the limit.
  EXPECT_TRUE(Reads(IdOf("c")));
  Reopen(2 * kKvBytes + (1 << 20));
  EXPECT_FALSE(files_->Has(IdOf("a")));
  EXPECT_TRUE(Reads(IdOf("c")));
  EXPECT_TRUE(Reads(IdOf("d")));
  EXPECT_EQ(OnDisk().size(), 2u);
}

TEST_F(ContextFilesTest, ATenantMakesRoomForItself) {
  ASSERT_TRUE(Write("a", "quiet").ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Write(std::string(1, 'b' + i), "busy").ok());
  EXPECT_TRUE(Reads(IdOf("a", "quiet")));
  EXPECT_TRUE(Reads(IdOf("k", "busy")));
  EXPECT_FALSE(files_->Has(IdOf("i", "busy"))) << "two of three are more than half";
  ASSERT_TRUE(Write("z", "quiet").ok());
  EXPECT_EQ(OnDisk().size(), 3u);
  ASSERT_TRUE(Write("a", "third").ok());  // of three files one for each
  EXPECT_EQ(OnDisk().size(), 3u);
  files_->Remove("third", "a");
  // Where the others have no more than their parts, what is more than its own finds no room.
  EncodedContextId large = IdOf("large", "third");
  large.kv_bytes = 2 * kKvBytes;
  EXPECT_EQ(files_->Write(large, "", KvFrom(std::vector<char>(2 * kKvBytes)), [] { return false; })
                .code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(OnDisk().size(), 2u);
}

TEST_F(ContextFilesTest, WhoHoldsMostGivesTheDiskBack) {
  EXPECT_FALSE(files_->FreeDisk(1));
  ASSERT_TRUE(Write("x", "other").ok());
  ASSERT_TRUE(Write("a").ok());
  ASSERT_TRUE(Write("b").ok());
  EXPECT_TRUE(files_->FreeDisk(1));
  EXPECT_FALSE(files_->Has(IdOf("a")));
  EXPECT_TRUE(files_->Has(IdOf("x", "other")));
  EXPECT_FALSE(files_->FreeDisk(int64_t{1} << 60)) << "more than there can be";
  EXPECT_TRUE(files_->Has(IdOf("b"))) << "removed in vain";
  EXPECT_TRUE(files_->FreeDisk(3 * kKvBytes));
  EXPECT_EQ(files_->bytes(), 0);
  EXPECT_TRUE(OnDisk().empty());
  EXPECT_FALSE(files_->FreeDisk(1));
  EXPECT_EQ(DiskMargin(8 << 20), 1 << 20);
  EXPECT_EQ(DiskMargin(int64_t{1} << 40), int64_t{3} << 30);
}

TEST_F(ContextFilesTest, OneThatExceedsTheLimitCostsNoOther) {
  Reopen(kKvBytes - 1);
  EXPECT_EQ(Write("a").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(OnDisk().empty());
}

TEST_F(ContextFilesTest, WhatIsNoLongerWantedIsNotLeft) {
  // Asked before each part of the keys and values, and at the end.
  for (int wanted = 0; wanted <= 3; ++wanted) {
    SCOPED_TRACE(wanted);
    int asked = 0;
    const absl::Status status =
        files_->Write(IdOf("a"), "state", KvFrom(KvOf("a")), [&] { return asked++ == wanted; });
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(asked, wanted + 1);
    EXPECT_FALSE(files_->Has(IdOf("a")));
    EXPECT_TRUE(OnDisk().empty());
  }
}

TEST_F(ContextFilesTest, OfKeysAndValuesThatGoAwayNothingIsLeft) {
  for (const int64_t limit : {int64_t{0}, int64_t{5 << 20}}) {
    const KvFrom kv(KvOf("a"));
    const absl::Status status = files_->Write(
        IdOf("a"), "state",
        [&](int64_t offset, absl::Span<char> to) { return offset < limit && kv(offset, to); },
        [] { return false; });
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_FALSE(files_->Has(IdOf("a")));
    EXPECT_TRUE(OnDisk().empty());
  }
}

// Deleted when the file already has its name.
TEST_F(ContextFilesTest, ARemovalWhileItIsWrittenIsNotOvertaken) {
  bool deleted = false;
  const BeforeEachCall remove(folder_.path(),
                              [&](const std::string& call, const std::string& path) {
                                if (call == "fsync" && path == "kv") {
                                  deleted = true;
                                  files_->Remove("tenant", "a");
                                }
                                return 0;
                              });
  EXPECT_EQ(files_->Write(IdOf("a"), "", KvFrom(KvOf("a")), [&] { return deleted; }).code(),
            absl::StatusCode::kCancelled);
  EXPECT_FALSE(files_->Has(IdOf("a")));
  EXPECT_TRUE(OnDisk().empty());
}

TEST_F(ContextFilesTest, RemoveRemovesOneOnly) {
  for (const char* name : {"a", "b"}) ASSERT_TRUE(Write(name).ok());
  files_->Remove("tenant", "a");
  files_->Remove("tenant", "no such");
  files_->Remove("other", "b");
  EXPECT_FALSE(files_->Has(IdOf("a")));
  EXPECT_TRUE(Reads(IdOf("b")));
  EXPECT_EQ(OnDisk().size(), 1u);
}

}  // namespace
}  // namespace chorale
