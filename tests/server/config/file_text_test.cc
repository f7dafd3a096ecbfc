#include "server/config/file_text.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

class FileTextTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  static std::string Error(const std::string& path) {
    const absl::StatusOr<std::string> text = ReadFileText(path);
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(text.status().message());
  }

  const TempFolder folder_;
};

TEST_F(FileTextTest, AFileAndALinkToIt) {
  std::string text(10'000, 'x');
  text[5000] = '\0';
  std::ofstream(Path("file"), std::ios::binary) << text;
  std::filesystem::create_symlink("file", Path("link"));
  EXPECT_EQ(*ReadFileText(Path("file")), text);
  EXPECT_EQ(*ReadFileText(Path("link")), text);
}

TEST_F(FileTextTest, AByteOrderMarkIsLeftOut) {
  std::ofstream(Path("file"), std::ios::binary) << "\xEF\xBB\xBF"
                                                << "alice \xEF\xBB\xBF";
  EXPECT_EQ(*ReadFileText(Path("file")), "alice \xEF\xBB\xBF");
  std::ofstream(Path("file"), std::ios::binary) << "\xEF\xBB";
  EXPECT_EQ(*ReadFileText(Path("file")), "\xEF\xBB");
}

TEST_F(FileTextTest, WhatIsNoRegularFileIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  for (const std::string& path : {Path("pipe"), folder_.path(), std::string("/dev/zero")}) {
    EXPECT_EQ(Error(path), absl::StrCat(path, ": cannot be read: not a regular file"));
  }
  EXPECT_EQ(Error(Path("none")),
            absl::StrCat(Path("none"), ": cannot be read: No such file or directory"));
}

TEST_F(FileTextTest, ALargeFileIsRefused) {
  std::ofstream(Path("file"));
  std::filesystem::resize_file(Path("file"), (16 << 20) + 1);
  EXPECT_EQ(Error(Path("file")),
            absl::StrCat(Path("file"), ": exceeds the limit of 16777216 bytes"));
}

}  // namespace
}  // namespace chorale
