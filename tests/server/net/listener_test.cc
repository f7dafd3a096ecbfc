#include "server/net/listener.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/net/file_limit.h"
#include "server/net/listen.h"
#include "tests/server/net/sockets.h"
#include "tests/support/eventually.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;

// A listener whose connections are kept, as by a server that does nothing with them.
class ListenerTest : public ::testing::Test {
 protected:
  void Start(ConnectionLimits limits = {}) {
    auto sockets = ListenOn("127.0.0.1:0");
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    socket_ = sockets->front().get();
    port_ = LocalPort(sockets->front());
    listener_ = std::make_unique<Listener>(
        Clock::Real(), *std::move(sockets), limits,
        Listener::Handlers{.accepted =
                               [this](FileDescriptor connection, const std::string& peer) {
                                 EXPECT_THAT(peer, testing::StartsWith("127.0.0."));
                                 MutexLock lock(&mutex_);
                                 accepted_.push_back(std::move(connection));
                               },
                           .refused =
                               [this](Refusal reason) {
                                 MutexLock lock(&mutex_);
                                 ++refused_[reason];
                               },
                           .failed =
                               [this](const absl::Status& status) {
                                 MutexLock lock(&mutex_);
                                 failure_ = std::string(status.message());
                               }});
  }

  bool EventuallyConnected(int64_t count) {
    return Eventually([&] { return listener_->connections() == count; });
  }
  bool EventuallyRefused(Refusal reason, int count) {
    return Eventually([&] {
      MutexLock lock(&mutex_);
      return refused_[reason] == count;
    });
  }
  size_t accepted() {
    MutexLock lock(&mutex_);
    return accepted_.size();
  }
  // Ends a connection as gRPC does.
  void ShutDown(size_t index) {
    MutexLock lock(&mutex_);
    shutdown(accepted_[index].get(), SHUT_RDWR);
    accepted_[index].Reset();
  }

  // Writes as much to a connection as the kernel takes while the client does not read.
  size_t FillUp(size_t index) {
    MutexLock lock(&mutex_);
    const std::string bytes(64 << 10, 'x');
    size_t written = 0;
    for (ssize_t n; (n = send(accepted_[index].get(), bytes.data(), bytes.size(),
                              MSG_NOSIGNAL | MSG_DONTWAIT)) > 0;) {
      written += n;
    }
    return written;
  }

  int socket_ = -1;
  int port_ = 0;
  Mutex mutex_;
  std::vector<FileDescriptor> accepted_ ABSL_GUARDED_BY(mutex_);
  std::map<Refusal, int> refused_ ABSL_GUARDED_BY(mutex_);
  std::string failure_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Listener> listener_;
};

TEST_F(ListenerTest, KnowsConnectionsUntilTheyAreShutDown) {
  Start();
  const FileDescriptor first = Connect(port_);
  ASSERT_TRUE(EventuallyConnected(1));
  const FileDescriptor second = Connect(port_);
  ASSERT_TRUE(EventuallyConnected(2));
  ASSERT_TRUE(Eventually([&] { return accepted() == 2; }));
  ShutDown(0);
  EXPECT_TRUE(EventuallyConnected(1));
  EXPECT_TRUE(Eventually([&] { return HasEnded(first); }));
  EXPECT_FALSE(HasEnded(second));
}

TEST_F(ListenerTest, ADescriptorThatIsStillOpenAfterItsEndDisturbsNone) {
  Start();
  FileDescriptor first = Connect(port_);
  ASSERT_TRUE(Eventually([&] { return accepted() == 1; }));
  {
    MutexLock lock(&mutex_);
    shutdown(accepted_[0].get(), SHUT_RDWR);  // and not closed
  }
  ASSERT_TRUE(EventuallyConnected(0));
  // The next one has the number of the first one's duplicate, and outlives what still happens to
  // the first.
  const FileDescriptor second = Connect(port_);
  ASSERT_TRUE(EventuallyConnected(1));
  first.Reset();
  ShutDown(0);
  const FileDescriptor third = Connect(port_);
  ASSERT_TRUE(EventuallyConnected(2));
  EXPECT_FALSE(HasEnded(second));
}

TEST_F(ListenerTest, RefusesWhatExceedsTheTotal) {
  Start({.total = 2, .per_peer = 100});
  const FileDescriptor first = Connect(port_);
  const FileDescriptor second = Connect(port_);
  ASSERT_TRUE(EventuallyConnected(2));
  const FileDescriptor third = Connect(port_);
  EXPECT_TRUE(EventuallyRefused(Refusal::kTotal, 1));
  EXPECT_EQ(ReadAll(third), "");
  // Room is used again.
  ASSERT_TRUE(Eventually([&] { return accepted() == 2; }));
  ShutDown(1);
  ASSERT_TRUE(EventuallyConnected(1));
  const FileDescriptor fourth = Connect(port_);
  EXPECT_TRUE(EventuallyConnected(2));
  EXPECT_FALSE(HasEnded(fourth));
}

TEST_F(ListenerTest, OnePeerCannotTakeWhatIsThereForAll) {
  Start({.total = 100, .per_peer = 2});
  std::vector<FileDescriptor> greedy;
  for (int i = 0; i < 5; ++i) greedy.push_back(Connect(port_, "127.0.0.2"));
  EXPECT_TRUE(EventuallyRefused(Refusal::kPerPeer, 3));
  const FileDescriptor other = Connect(port_, "127.0.0.3");
  EXPECT_TRUE(EventuallyConnected(3));
  ASSERT_TRUE(Eventually([&] { return accepted() == 3; }));
  ShutDown(0);
  ASSERT_TRUE(EventuallyConnected(2));
  greedy.push_back(Connect(port_, "127.0.0.2"));
  EXPECT_TRUE(EventuallyConnected(3));
}

// Lowers the limit of open files to what is open and some more.
class FewFiles {
 public:
  explicit FewFiles(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    const FileDescriptor next(open("/dev/null", O_RDONLY | O_CLOEXEC));
    low.rlim_cur = static_cast<rlim_t>(next.get() + more);
    setrlimit(RLIMIT_NOFILE, &low);
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;

 private:
  rlimit before_ = {};
};

TEST_F(ListenerTest, ServesAgainWhenThereAreFileDescriptorsAgain) {
  Start();
  std::vector<FileDescriptor> clients;
  const auto refused = [&] {
    MutexLock lock(&mutex_);
    return refused_[Refusal::kNoDescriptor];
  };
  {
    const FewFiles few(30);
    // Each takes a descriptor here, and two or more there.
    while (refused() == 0) {
      FileDescriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (!client.valid()) {  // room for one client more
        ASSERT_FALSE(clients.empty());
        clients.pop_back();
        continue;
      }
      sockaddr_in address = {};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(static_cast<uint16_t>(port_));
      connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
      clients.push_back(std::move(client));
      const auto count = static_cast<int64_t>(clients.size());
      ASSERT_TRUE(Eventually([&] { return refused() > 0 || listener_->connections() >= count; }));
    }
  }
  const int64_t before = listener_->connections();
  const FileDescriptor served = Connect(port_);
  EXPECT_TRUE(EventuallyConnected(before + 1));
  EXPECT_FALSE(HasEnded(served));
}

TEST_F(ListenerTest, ConnectionsWaitWhileAcceptingIsPaused) {
  Start();
  listener_->PauseAccepting(true);
  const FileDescriptor before = Connect(port_);
  listener_->PauseAccepting(false);
  ASSERT_TRUE(EventuallyConnected(1));
  listener_->PauseAccepting(true);
  std::vector<FileDescriptor> waiting;
  for (int i = 0; i < 20; ++i) waiting.push_back(Connect(port_));
  EXPECT_LE(listener_->connections(), 2);
  listener_->PauseAccepting(false);
  EXPECT_TRUE(EventuallyConnected(21));
}

TEST_F(ListenerTest, StopAcceptingClosesThePortAndKeepsTheConnections) {
  Start();
  const FileDescriptor client = Connect(port_);
  ASSERT_TRUE(Eventually([&] { return accepted() == 1; }));
  listener_->StopAccepting();
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port_));
  const FileDescriptor late(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_NE(connect(late.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_FALSE(HasEnded(client));
  EXPECT_EQ(listener_->connections(), 1);
  ShutDown(0);
  EXPECT_TRUE(EventuallyConnected(0));
}

TEST_F(ListenerTest, EndWritingLetsWhatWasWrittenArrive) {
  Start();
  const FileDescriptor client = Connect(port_);
  ASSERT_TRUE(Eventually([&] { return accepted() == 1; }));
  {
    MutexLock lock(&mutex_);
    Send(accepted_[0], "goodbye");
  }
  listener_->EndWriting();
  EXPECT_EQ(ReadAll(client), "goodbye");
}

TEST_F(ListenerTest, WaitsForClientsThatReadSlowlyAndSend) {
  Start();
  const FileDescriptor client = Connect(port_);
  ASSERT_TRUE(Eventually([&] { return accepted() == 1; }));
  const size_t written = FillUp(0);
  listener_->EndWriting();
  EXPECT_FALSE(listener_->WaitUntilDelivered(Clock::Real()->Now()));
  size_t received = 0;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t n; (n = read(client.get(), buffer, sizeof(buffer))) > 0; received += n) {
      (void)send(client.get(), "x", 1, MSG_NOSIGNAL);
    }
  });
  EXPECT_TRUE(listener_->WaitUntilDelivered(Clock::Real()->Now() + absl::Minutes(5)));
  ShutDown(0);
  reader.join();
  EXPECT_EQ(received, written);
  EXPECT_TRUE(listener_->WaitUntilDelivered(Clock::Real()->Now())) << "there is no connection";
}

TEST_F(ListenerTest, EndsTheBusiestSinceTheLastMark) {
  Start();
  const FileDescriptor once_busy = Connect(port_);
  const FileDescriptor quiet = Connect(port_);
  const FileDescriptor busy = Connect(port_);
  ASSERT_TRUE(EventuallyConnected(3));
  EXPECT_EQ(listener_->EndBusiest(BusySince::kMark), 0);
  Send(once_busy, std::string(50'000, 'x'));
  const auto all_arrived = [&](size_t index, int64_t bytes) {
    return Eventually([&] {
      MutexLock lock(&mutex_);
      std::string buffer(100'000, ' ');
      return recv(accepted_[index].get(), buffer.data(), buffer.size(), MSG_PEEK | MSG_DONTWAIT) ==
             bytes;
    });
  };
  ASSERT_TRUE(Eventually([&] { return accepted() == 3; }));
  ASSERT_TRUE(all_arrived(0, 50'000));
  listener_->EndFloods();
  Send(busy, std::string(20'000, 'x'));
  Send(quiet, "x");
  ASSERT_TRUE(all_arrived(2, 20'000));
  EXPECT_EQ(listener_->EndBusiest(BusySince::kMark), 1);
  EXPECT_TRUE(Eventually([&] { return HasEnded(busy); }));
  EXPECT_TRUE(EventuallyConnected(2));
  EXPECT_FALSE(HasEnded(once_busy));
  EXPECT_FALSE(HasEnded(quiet));
  // Since the beginning it is another one.
  EXPECT_EQ(listener_->EndBusiest(BusySince::kBeginning), 1);
  EXPECT_TRUE(Eventually([&] { return HasEnded(once_busy); }));
  EXPECT_FALSE(HasEnded(quiet));
}

TEST_F(ListenerTest, EndsWhoSendsMuchMoreThanTheMessagesOfCalls) {
  Start({.message_bytes = 1 << 20});
  const FileDescriptor flood = Connect(port_);
  const FileDescriptor upload = Connect(port_);
  ASSERT_TRUE(EventuallyConnected(2));
  ASSERT_TRUE(Eventually([&] { return accepted() == 2; }));
  constexpr int64_t kBytes = 6 << 20;
  const auto exchange = [&](const FileDescriptor& client, size_t index) {
    std::thread sender([&] { Send(client, std::string(kBytes, 'x')); });
    std::string buffer(kBytes, ' ');
    int descriptor = -1;
    {
      MutexLock lock(&mutex_);
      descriptor = accepted_[index].get();
    }
    int64_t received = 0;
    EXPECT_TRUE(Eventually([&] {
      const ssize_t n = recv(descriptor, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (n > 0) received += n;
      return received == kBytes;
    }));
    sender.join();
  };
  exchange(flood, 0);
  exchange(upload, 1);
  sockaddr_in from = {};
  socklen_t size = sizeof(from);
  ASSERT_EQ(getsockname(upload.get(), reinterpret_cast<sockaddr*>(&from), &size), 0);
  for (int i = 0; i < 2; ++i) {
    listener_->AllowMessage(absl::StrCat("127.0.0.1 ", ntohs(from.sin_port)));
    listener_->AllowMessage("127.0.0.9 1");  // nobody's
  }
  EXPECT_EQ(listener_->EndFloods(), 1);
  EXPECT_TRUE(Eventually([&] { return HasEnded(flood); }));
  EXPECT_TRUE(EventuallyConnected(1));
  EXPECT_FALSE(HasEnded(upload));
  EXPECT_EQ(listener_->EndFloods(), 0);
}

TEST_F(ListenerTest, SaysWhenItCannotAcceptAnyMore) {
  Start();
  shutdown(socket_, SHUT_RDWR);
  EXPECT_TRUE(Eventually([&] {
    MutexLock lock(&mutex_);
    return !failure_.empty();
  }));
  MutexLock lock(&mutex_);
  EXPECT_THAT(failure_, HasSubstr("cannot accept connections: Invalid argument"));
}

TEST(FileLimitTest, IsRaisedAsFarAsItMay) {
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit low = before;
  low.rlim_cur = std::min<rlim_t>(before.rlim_max, 512);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto raised = static_cast<rlim_t>(RaiseFileLimit());
  EXPECT_EQ(raised, std::min<rlim_t>(before.rlim_max, 1 << 20));
  rlimit after = {};
  getrlimit(RLIMIT_NOFILE, &after);
  EXPECT_EQ(after.rlim_cur, raised);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(FileLimitTest, LeavesFilesForTheRest) {
  EXPECT_EQ(ConnectionsThatFit(1024), 384);
  EXPECT_EQ(ConnectionsThatFit(256), 64);
  EXPECT_EQ(ConnectionsThatFit(1 << 20), ((1 << 20) - 256) / 2);
}

}  // namespace
}  // namespace chorale
