#include "client/cli/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/temp_folder.h"

namespace chorale::client {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputFileTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  static void Put(const std::string& path, const std::string& content) {
    std::ofstream(path) << content;
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  static absl::Status Write(const std::string& path) {
    return WriteOutputFile(path, [](std::ostream& out) { out << "new"; });
  }
  static mode_t Mode(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
  static ino_t Inode(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_ino;
  }
  int64_t FileCount() const {
    return std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator());
  }

  const TempFolder folder_;
};

TEST_F(OutputFileTest, ANewFileHasTheUsualMode) {
  const mode_t mask = umask(027);
  EXPECT_TRUE(Write(Path("a")).ok());
  umask(mask);
  EXPECT_EQ(Read(Path("a")), "new");
  EXPECT_EQ(Mode(Path("a")), 0640);
  EXPECT_EQ(FileCount(), 1);
}

TEST_F(OutputFileTest, AFileKeepsItsMode) {
  for (const mode_t mode : {0600, 0664, 0755}) {
    Put(Path("a"), "precious");
    chmod(Path("a").c_str(), mode);
    EXPECT_TRUE(Write(Path("a")).ok());
    EXPECT_EQ(Read(Path("a")), "new");
    EXPECT_EQ(Mode(Path("a")), mode);
  }
  EXPECT_EQ(FileCount(), 1);
}

TEST_F(OutputFileTest, LinksStay) {
  fs::create_directory(Path("other"));
  Put(Path("other/real"), "precious");
  chmod(Path("other/real").c_str(), 0600);
  fs::create_symlink("other/real", Path("link"));
  fs::create_symlink("link", Path("second"));
  EXPECT_TRUE(Write(Path("second")).ok());
  EXPECT_TRUE(fs::is_symlink(Path("second")));
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(Read(Path("other/real")), "new");
  EXPECT_EQ(Mode(Path("other/real")), 0600);
  fs::create_symlink("other/later", Path("dangling"));
  EXPECT_TRUE(Write(Path("dangling")).ok());
  EXPECT_TRUE(fs::is_symlink(Path("dangling")));
  EXPECT_EQ(Read(Path("other/later")), "new");
  fs::create_symlink("circle", Path("circle"));
  EXPECT_FALSE(Write(Path("circle")).ok());
}

TEST_F(OutputFileTest, AFileWithOtherNamesIsWrittenInto) {
  Put(Path("a"), "precious");
  fs::create_hard_link(Path("a"), Path("b"));
  EXPECT_TRUE(Write(Path("a")).ok());
  EXPECT_EQ(Read(Path("b")), "new");
  EXPECT_EQ(FileCount(), 2);
}

// As in a folder that is not writable, where root, who may run this test, can write nevertheless.
TEST_F(OutputFileTest, WhereNoFileCanBeMadeTheFileIsWrittenInto) {
  const std::string longest = Path(std::string(255, 'x'));
  Put(longest, "precious");
  const ino_t inode = Inode(longest);
  EXPECT_TRUE(Write(longest).ok());
  EXPECT_EQ(Read(longest), "new");
  EXPECT_EQ(Inode(longest), inode);
}

TEST_F(OutputFileTest, DevicesAreWrittenInto) {
  EXPECT_TRUE(Write("/dev/null").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(OutputFileTest, ErrorsHaveTheReason) {
  EXPECT_THAT(std::string(Write(Path("none/a")).message()),
              HasSubstr("--output: cannot write '" + Path("none/a") + "': No such file"));
  EXPECT_EQ(Write(folder_.path()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Write("/dev/full").message()), HasSubstr("cannot write"));
  Put(Path("a"), "precious");
  const absl::Status failed =
      WriteOutputFile(Path("a"), [](std::ostream& out) { out.setstate(std::ios::badbit); });
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(Read(Path("a")), "precious");
  EXPECT_EQ(FileCount(), 1);
}

}  // namespace
}  // namespace chorale::client
