// Many connections, and more than there may be: who is refused sees it at once, and whoever comes
// when there is room again is served.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/net/file_limit.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/eventually.h"

namespace chorale::end_to_end {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A connection to "127.0.0.1:port", from this loopback address.
FileDescriptor ConnectTo(const std::string& address, in_addr_t from = INADDR_LOOPBACK) {
  const std::vector<std::string> parts = absl::StrSplit(address, ':');
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(parts.back(), &port));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port));
  FileDescriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in source = {};
  source.sin_family = AF_INET;
  source.sin_addr.s_addr = htonl(from);
  EXPECT_EQ(bind(connection.get(), reinterpret_cast<sockaddr*>(&source), sizeof(source)), 0);
  EXPECT_EQ(connect(connection.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return connection;
}

// Sends HTTP/2's SETTINGS without a pause, on one connection from 127.0.0.2, until it is destroyed.
class SettingsFlood {
 public:
  // Since when there is no pause: with `kFromTheFirstByte` the thread that hands the connection to
  // gRPC has to read it, with `kOnceServed` one of those that read all others.
  enum class Begin { kFromTheFirstByte, kOnceServed };

  SettingsFlood(const std::string& address, Begin begin)
      : connection_(ConnectTo(address, INADDR_LOOPBACK + 1)),
        thread_([this, begin] { Run(begin); }) {}
  ~SettingsFlood() {
    stopping_ = true;
    thread_.join();
  }

 private:
  void Run(Begin begin) {
    // The header of a frame without content: type 4, stream 0.
    const std::string frame("\0\0\0\4\0\0\0\0\0", 9);
    std::string bytes = absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frame);
    if (begin == Begin::kOnceServed) {
      send(connection_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      WaitFor(POLLIN);
      bytes.clear();
    }
    for (int i = 0; i < 1000; ++i) bytes += frame;
    size_t sent = 0;
    char answers[4096];
    while (!stopping_) {
      const ssize_t n = send(connection_.get(), bytes.data() + sent, bytes.size() - sent,
                             MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) sent += n;
      if (n < 0 && errno != EAGAIN) return;  // the server has ended it
      if (sent == bytes.size()) sent = bytes.size() - 1000 * frame.size();
      while (recv(connection_.get(), answers, sizeof(answers), MSG_DONTWAIT) > 0) {
      }
      // As soon as there is room again. To ask all the time would only take the server's processor.
      WaitFor(POLLOUT);
    }
  }
  void WaitFor(int16_t event) const {
    pollfd waited = {.fd = connection_.get(), .events = event, .revents = 0};
    poll(&waited, 1, /*timeout=*/100);
  }

  const FileDescriptor connection_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class ConnectionsTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> flags, int64_t file_limit = 0) {
    server_ = ServerProcess::Start({.models = {GoldenFolder("golden_tiny")},
                                    .flags = std::move(flags),
                                    .file_limit = file_limit});
    ASSERT_NE(server_, nullptr);
  }

  // Adds connections that say nothing.
  void Connect(int count) {
    for (int i = 0; i < count; ++i) idle_.push_back(ConnectTo(server_->address()));
  }

  double Metric(const std::string& name, const std::string& labels = "") const {
    return PrometheusPage::Fetch(server_->metrics_address()).Value(name, labels);
  }
  bool NewConnectionsAreServed() const {
    return Eventually([&] { return Health(server_->address()) == "SERVING"; });
  }

  std::unique_ptr<ServerProcess> server_;
  std::vector<FileDescriptor> idle_;
};

TEST_F(ConnectionsTest, WhatExceedsTheLimitIsRefusedAndCounted) {
  Start({"--max_connections=10"});
  EXPECT_EQ(Metric("chorale_max_connections"), 10);
  ASSERT_TRUE(Eventually([&] { return Metric("chorale_connections") == 0; }));
  Connect(30);
  EXPECT_TRUE(Eventually([&] {
    return Metric("chorale_connections_refused_total", "reason=\"max_connections\"") == 20;
  }));
  EXPECT_EQ(Metric("chorale_connections"), 10);
  server_->ExpectLog("connections_refused reason=max_connections count=1");
  idle_.clear();
  EXPECT_TRUE(NewConnectionsAreServed());
  server_->Terminate();
}

TEST_F(ConnectionsTest, AProcessWithFewFilesServesAgainOnceTheyAreFree) {
  ASSERT_GT(RaiseFileLimit(), 1200) << "this test has more than a thousand connections";
  Start({}, /*file_limit=*/1024);
  EXPECT_EQ(Metric("chorale_max_connections"), 384);
  server_->ExpectLog("max_connections_reduced max_connections=384");
  ASSERT_TRUE(Eventually([&] { return Metric("chorale_connections") == 0; }));
  Connect(1010);
  EXPECT_TRUE(
      Eventually([&] { return Metric("chorale_connections_refused_total") == 1010 - 384; }));
  EXPECT_LT(Metric("process_open_fds"), 1024);
  idle_.clear();
  EXPECT_TRUE(NewConnectionsAreServed());
  EXPECT_TRUE(Eventually([&] { return Metric("chorale_connections") <= 1; }));
  server_->Terminate();
}

// A client whose connection never says anything has ten seconds.
TEST_F(ConnectionsTest, ConnectionsThatSayNothingAreEnded) {
  Start({});
  Connect(20);
  ASSERT_TRUE(Eventually([&] { return Metric("chorale_connections") >= 20; }));
  EXPECT_TRUE(Eventually([&] { return Metric("chorale_connections") == 0; }));
  server_->Terminate();
}

// A flood holds up what gRPC has given to the same thread of its own, until the flood is ended.
// Of gRPC's own threads that read connections and run callbacks there are two on a small machine;
// and one accepts.
TEST_F(ConnectionsTest, ClientsThatNeverPauseHoldUpNoOther) {
  for (const auto begin :
       {SettingsFlood::Begin::kFromTheFirstByte, SettingsFlood::Begin::kOnceServed}) {
    Start({"--max_message_mib=1"});  // less to send until a flood is one
    std::vector<std::unique_ptr<SettingsFlood>> floods;
    for (int i = 0; i < 12; ++i) {
      floods.push_back(std::make_unique<SettingsFlood>(server_->address(), begin));
    }
    // Those that are held up are so for as long as the floods last.
    for (int i = 0; i < 5; ++i) EXPECT_EQ(Health(server_->address(), 2 * kPatience), "SERVING");
    if (begin == SettingsFlood::Begin::kOnceServed) {
      EXPECT_TRUE(Eventually(
          [&] { return Metric("chorale_connections_ended_total", "reason=\"flood\"") == 12; }));
      server_->ExpectLog("connection_ended reason=flood peer=127.0.0.2");
    }
    floods.clear();
    server_->Terminate();
  }
}

TEST_F(ConnectionsTest, HalfScrapesDoNotStopTheMetrics) {
  Start({});
  for (int i = 0; i < 200; ++i) {
    idle_.push_back(ConnectTo(server_->metrics_address()));
    ASSERT_EQ(send(idle_.back().get(), "GET /m", 6, MSG_NOSIGNAL), 6);
  }
  EXPECT_EQ(Metric("chorale_ready"), 1);
  server_->Terminate();
}

TEST(MemoryLimitTest, PoolsThatDoNotFitAreAnErrorAtTheStart) {
  const auto server = ServerProcess::Spawn(
      {.models = {GoldenFolder("golden_tiny")},
       .flags = {"--memory_limit_mib=400", "--context_pool_mib=300", "--buffer_pool_mib=50",
                 "--registration_memory_mib=50", "--host_context_pool_mib=300"}});
  EXPECT_EQ(server->ExitCode(), 2);
  EXPECT_THAT(server->log(), AllOf(HasSubstr("--memory_limit_mib=400 is too low"),
                                   HasSubstr("--registration_memory_mib 50")));
}

TEST(MemoryLimitTest, AProcessThatStaysAboveEndsWithAnError) {
  if (TestBackend() != "cpu") GTEST_SKIP() << "a GPU's backend has other pools";
  // Less than the program itself takes.
  const auto server =
      ServerProcess::Spawn({.models = {GoldenFolder("golden_tiny")},
                            .flags = {"--memory_limit_mib=20", "--context_pool_mib=1",
                                      "--buffer_pool_mib=8", "--registration_memory_mib=1"}});
  EXPECT_EQ(server->ExitCode(), 1);
  EXPECT_THAT(server->log(), AllOf(HasSubstr("memory_high resident_bytes="),
                                   HasSubstr("memory_exhausted reason=")));
}

}  // namespace
}  // namespace chorale::end_to_end
