// A port for a server that comes later, or never.
#ifndef CHORALE_TESTS_SUPPORT_RESERVED_PORT_H_
#define CHORALE_TESTS_SUPPORT_RESERVED_PORT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"

namespace chorale {

// A port of 127.0.0.1 that the system gives to nobody else while this lives. Connections to it are
// refused until one of this process's servers listens on it: gRPC's can, because they share ports.
class ReservedPort {
 public:
  ReservedPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t bytes = sizeof(address);
    if (setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEPORT, &yes, sizeof(yes)) != 0 ||
        bind(socket_.get(), any, bytes) != 0 || getsockname(socket_.get(), any, &bytes) != 0) {
      std::abort();  // no test can run without it
    }
    port_ = ntohs(address.sin_port);
  }

  int port() const { return port_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  const FileDescriptor socket_;
  int port_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_SUPPORT_RESERVED_PORT_H_
