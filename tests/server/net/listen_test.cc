#include "server/net/listen.h"

#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/net/sockets.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;

// Whether an IPv6 connection to the loopback address works.
bool ConnectsByIpv6(int port) {
  const FileDescriptor client(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  return connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

bool ConnectsToPath(const std::string& path) {
  const FileDescriptor client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

TEST(ListenTest, TakesAnyFreePort) {
  const auto sockets = ListenOn("127.0.0.1:0");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  ASSERT_EQ(sockets->size(), 1);
  EXPECT_GT(LocalPort(sockets->front()), 0);
  EXPECT_TRUE(Connect(LocalPort(sockets->front())).valid());
}

TEST(ListenTest, AWildcardTakesBothKinds) {
  const bool has_ipv6 = ListenOn("[::1]:0").ok();
  for (const char* address : {"0.0.0.0:0", "[::]:0"}) {
    const auto sockets = ListenOn(address);
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    const int port = LocalPort(sockets->front());
    EXPECT_TRUE(Connect(port).valid()) << address;
    EXPECT_EQ(ConnectsByIpv6(port), has_ipv6) << address;
  }
}

TEST(ListenTest, AllAddressesOfANameHaveOnePort) {
  const auto sockets = ListenOn("localhost:0");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  for (const FileDescriptor& socket : *sockets) {
    EXPECT_EQ(LocalPort(socket), LocalPort(sockets->front()));
  }
}

TEST(ListenTest, APortThatIsTakenIsAnError) {
  const auto first = ListenOn("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = absl::StrCat("127.0.0.1:", LocalPort(first->front()));
  const absl::Status second = ListenOn(address).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.message(),
            absl::StrCat("cannot listen on ", address,
                         ": the address is in use by another process or by another flag"));
}

TEST(ListenTest, AnAddressOfAnotherMachineIsAnError) {
  const absl::Status status = ListenOn("192.0.2.1:0").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("cannot listen on 192.0.2.1:0: this machine does not have that address"));
}

TEST(ListenTest, ASocketThatIsLeftOverIsReplacedAndOneInUseIsNot) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/chorale-", getpid(), ".sock");
  const std::string address = absl::StrCat("unix:", path);
  const mode_t umask_before = umask(0);
  {
    const auto first = ListenOn(address);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(LocalPort(first->front()), 0);
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0660));
    EXPECT_TRUE(ConnectsToPath(path));
    EXPECT_EQ(ListenOn(address).status().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_FALSE(ConnectsToPath(path));
  const auto second = ListenOn(address);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(ConnectsToPath(path));
  std::filesystem::remove(path);
  umask(umask_before);
}

TEST(ListenTest, AFileThatIsNoSocketStays) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/chorale-", getpid(), ".db");
  const std::string link = path + ".link";
  std::ofstream(path) << "datasets";
  std::filesystem::create_symlink(path, link);
  for (const std::string& taken : {path, link}) {
    const absl::Status status = ListenOn(absl::StrCat("unix:", taken)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("the file exists and is not a socket"));
  }
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(std::filesystem::file_size(path), 8u);
  std::filesystem::remove(link);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace chorale
