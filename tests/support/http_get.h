// One request to an HTTP endpoint on loopback.
#ifndef CHORALE_TESTS_SUPPORT_HTTP_GET_H_
#define CHORALE_TESTS_SUPPORT_HTTP_GET_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace chorale {

// The whole response, its headers included.
inline std::string HttpGet(int port, const std::string& path) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(write(socket, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string response;
  char buffer[4096];
  for (ssize_t n; (n = read(socket, buffer, sizeof(buffer))) > 0;) response.append(buffer, n);
  close(socket);
  return response;
}

}  // namespace chorale

#endif  // CHORALE_TESTS_SUPPORT_HTTP_GET_H_
