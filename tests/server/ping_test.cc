// How often clients may ping, by connections that speak HTTP/2's frames themselves.
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/server/net/sockets.h"
#include "tests/server/server_fixture.h"

namespace chorale {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr char kPing = 6;
constexpr char kGoAway = 7;
constexpr size_t kFrameHeader = 9;

std::string Frame(char type, const std::string& payload) {
  const std::string length = {0, 0, static_cast<char>(payload.size())};
  return absl::StrCat(length, std::string(1, type), std::string(5, '\0'), payload);
}

class PingingClient {
 public:
  explicit PingingClient(int port) : connection_(Connect(port)) {
    Send(absl::StrCat(kPreface, Frame(/*SETTINGS*/ 4, "")));
  }

  // True when the answer comes; false when the server says goodbye.
  bool Ping() {
    Send(Frame(kPing, "12345678"));
    while (true) {
      const char type = NextFrame();
      if (type == kPing) return true;
      if (type == kGoAway || type < 0) return false;
    }
  }

 private:
  void Send(const std::string& bytes) const {
    (void)!send(connection_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  // The type of the next frame; -1 at the end of the connection.
  char NextFrame() {
    while (true) {
      if (received_.size() >= kFrameHeader) {
        size_t length = 0;
        for (int i = 0; i < 3; ++i) length = length << 8 | static_cast<uint8_t>(received_[i]);
        if (received_.size() >= kFrameHeader + length) {
          const char type = received_[3];
          received_.erase(0, kFrameHeader + length);
          return type;
        }
      }
      pollfd wait = {connection_.get(), POLLIN, 0};
      if (poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) <= 0) return -1;
      char bytes[4096];
      const ssize_t size = recv(connection_.get(), bytes, sizeof(bytes), 0);
      if (size <= 0) return -1;
      received_.append(bytes, size);
    }
  }

  const FileDescriptor connection_;
  std::string received_;
};

class PingTest : public ServerFixture {};

// gRPC gives up a connection at its third ping that comes too early.
TEST_F(PingTest, OneThatIsNotTooOftenIsAnsweredForEverAlsoWithoutACall) {
  options_.min_ping_interval = absl::Milliseconds(20);
  StartServer();
  PingingClient client(server_->port());
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(client.Ping()) << i;
    absl::SleepFor(2 * options_.min_ping_interval);
  }
}

TEST_F(PingTest, TooManyEndTheConnection) {
  options_.min_ping_interval = absl::Minutes(10);
  StartServer();
  PingingClient client(server_->port());
  int answered = 0;
  while (answered < 100 && client.Ping()) ++answered;
  EXPECT_LT(answered, 100);
}

// Clients in Go may ping every 10 s, and no more often; the network may bring two closer together.
TEST_F(PingTest, ThoseOfGoAreNotTooMany) {
  EXPECT_LE(options_.min_ping_interval, absl::Seconds(9));
}

}  // namespace
}  // namespace chorale
