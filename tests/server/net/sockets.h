// Clients of a listening socket on this machine.
#ifndef CHORALE_TESTS_SERVER_NET_SOCKETS_H_
#define CHORALE_TESTS_SERVER_NET_SOCKETS_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"
#include "gtest/gtest.h"

namespace chorale {

// A TCP connection to 127.0.0.1 from another address of the loopback network, by default the same.
inline FileDescriptor Connect(int port, const char* from = "127.0.0.1") {
  FileDescriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, from, &address.sin_addr);
  EXPECT_EQ(bind(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return client;
}

inline void Send(const FileDescriptor& socket, absl::string_view bytes) {
  EXPECT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// What arrives until the other side ends the connection.
inline std::string ReadAll(const FileDescriptor& socket) {
  std::string all;
  char buffer[4096];
  for (ssize_t n; (n = read(socket.get(), buffer, sizeof(buffer))) > 0;) all.append(buffer, n);
  return all;
}

// Whether the other side has ended the connection; does not wait.
inline bool HasEnded(const FileDescriptor& socket) {
  pollfd poll_for = {.fd = socket.get(), .events = POLLIN | POLLRDHUP, .revents = 0};
  char byte = 0;
  return poll(&poll_for, 1, 0) == 1 && recv(socket.get(), &byte, 1, MSG_PEEK) <= 0;
}

}  // namespace chorale

#endif  // CHORALE_TESTS_SERVER_NET_SOCKETS_H_
