#include "tests/end_to_end/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace chorale::end_to_end {
namespace {

constexpr int kPollMilliseconds = 20;  // how soon a break is noticed

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Waits until `socket` can be read, or `broken`.
bool WaitReadable(int socket, const std::atomic<bool>& broken) {
  while (!broken) {
    pollfd entry{socket, POLLIN, 0};
    if (poll(&entry, 1, kPollMilliseconds) > 0) return true;
  }
  return false;
}

// Closes at once with a reset and drops unsent bytes.
void Reset(int socket) {
  const linger at_once{1, 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  close(socket);
}

// Moves what there is from one socket to the other; false at the end of either.
bool Forward(int from, int to) {
  char block[16384];
  const ssize_t count = recv(from, block, sizeof(block), 0);
  if (count <= 0) return false;
  for (ssize_t sent = 0; sent < count;) {
    const ssize_t n = send(to, block + sent, count - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += n;
  }
  return true;
}

}  // namespace

Relay::Relay(const std::string& server) {
  int server_port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(server.substr(server.rfind(':') + 1), &server_port));
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own = Loopback(0);
  socklen_t size = sizeof(own);
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&own), size), 0);
  EXPECT_EQ(listen(listener_, 1), 0);
  EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&own), &size), 0);
  address_ = absl::StrCat("127.0.0.1:", ntohs(own.sin_port));
  thread_ = std::thread([this, server_port] { Run(server_port); });
}

void Relay::Break() {
  broken_ = true;
  if (thread_.joinable()) thread_.join();
}

void Relay::Run(int server_port) {
  if (!WaitReadable(listener_, broken_)) {
    close(listener_);
    return;
  }
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  close(listener_);  // a client that connects again finds nobody
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in peer = Loopback(server_port);
  bool open = connect(server, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) == 0;
  while (open && !broken_) {
    pollfd entries[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    if (poll(entries, 2, kPollMilliseconds) <= 0) continue;
    if (entries[0].revents != 0) open = Forward(client, server);
    if (open && entries[1].revents != 0) open = Forward(server, client);
  }
  Reset(client);
  Reset(server);
}

}  // namespace chorale::end_to_end
