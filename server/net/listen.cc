#include "server/net/listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/net/address.h"

namespace chorale {
namespace {

// The kernel takes the smaller of this and net.core.somaxconn.
constexpr int kBacklog = 4096;

// Of a Unix socket: who may connect. The umask can take rights away from it.
constexpr mode_t kSocketMode = 0660;

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

bool operator==(const SocketAddress& a, const SocketAddress& b) {
  return a.size == b.size && std::memcmp(&a.storage, &b.storage, a.size) == 0;
}

SocketAddress Copy(const void* address, size_t size) {
  SocketAddress copy;
  std::memcpy(&copy.storage, address, size);
  copy.size = static_cast<socklen_t>(size);
  return copy;
}

void SetPort(int port, SocketAddress* address) {
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&address->storage);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address->storage);
  const in_port_t network_order = htons(static_cast<in_port_t>(port));
  (address->storage.ss_family == AF_INET ? v4->sin_port : v6->sin6_port) = network_order;
}

absl::Status CannotListen(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", why));
}

std::string Reason(int error) {
  if (error == EADDRINUSE) {
    return "the address is in use by another process or by another flag";
  }
  if (error == EADDRNOTAVAIL) return "this machine does not have that address";
  if (error == EAFNOSUPPORT) return "this machine does not support this address family";
  return std::generic_category().message(error);
}

// An invalid descriptor, with errno set, if that fails.
FileDescriptor OpenSocket(const SocketAddress& address) {
  const int family = address.storage.ss_family;
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return socket;
  // A server that is started anew may listen although connections of the last one linger. Not
  // SO_REUSEPORT: two servers on one port would share its connections at random.
  const int yes = 1;
  const int no = 0;
  if (family != AF_UNIX) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (family == AF_INET6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  // Linux gives the mode of the socket to its name.
  if (family == AF_UNIX) fchmod(socket.get(), kSocketMode);
  if (bind(socket.get(), address.get(), address.size) == 0 && listen(socket.get(), kBacklog) == 0) {
    return socket;
  }
  const int error = errno;
  socket.Reset();
  errno = error;
  return socket;
}

SocketAddress Wildcard(int family) {
  if (family == AF_INET) {
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    return Copy(&any, sizeof(any));
  }
  sockaddr_in6 any = {};
  any.sin6_family = AF_INET6;
  return Copy(&any, sizeof(any));
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& text,
                                                   const Address& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(address.port);
  if (const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found)) {
    return CannotListen(text, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  std::vector<SocketAddress> resolved;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const SocketAddress next = Copy(each->ai_addr, each->ai_addrlen);
    // /etc/hosts may name an address twice.
    if (std::find(resolved.begin(), resolved.end(), next) == resolved.end()) {
      resolved.push_back(next);
    }
  }
  return resolved;
}

std::vector<FileDescriptor> Only(FileDescriptor socket) {
  std::vector<FileDescriptor> sockets;
  sockets.push_back(std::move(socket));
  return sockets;
}

// Whether the address is there, but not to be had. An address of a kind that this machine does not
// have is nobody's loss.
bool IsTaken(int error) { return error == EADDRINUSE || error == EACCES; }

absl::StatusOr<std::vector<FileDescriptor>> ListenOnAll(const std::string& text,
                                                        std::vector<SocketAddress> addresses) {
  std::vector<FileDescriptor> sockets;
  int error = EADDRNOTAVAIL;
  for (SocketAddress& address : addresses) {
    if (!sockets.empty()) SetPort(LocalPort(sockets.front()), &address);
    FileDescriptor socket = OpenSocket(address);
    error = errno;
    if (socket.valid()) {
      sockets.push_back(std::move(socket));
    } else if (IsTaken(error)) {
      // With half of a name's addresses some clients would not find the server.
      return CannotListen(text, Reason(error));
    }
  }
  if (sockets.empty()) return CannotListen(text, Reason(error));
  return sockets;
}

absl::StatusOr<std::vector<FileDescriptor>> ListenOnWildcard(const std::string& text, int port) {
  // An IPv6 socket takes IPv4 connections as well; a machine without IPv6 has no such socket.
  int error = 0;
  for (const int family : {AF_INET6, AF_INET}) {
    SocketAddress any = Wildcard(family);
    SetPort(port, &any);
    FileDescriptor socket = OpenSocket(any);
    error = errno;
    if (socket.valid()) return Only(std::move(socket));
    if (IsTaken(error)) break;
  }
  return CannotListen(text, Reason(error));
}

// Whether something other than a socket has this path. Connecting to it fails as it does to a
// socket on which nobody listens, and it must not be removed. Links are not followed.
bool IsNoSocket(const std::string& path) {
  struct stat file = {};
  return lstat(path.c_str(), &file) == 0 && !S_ISSOCK(file.st_mode);
}

// Whether the socket's file is left over: nobody listens there.
bool IsStale(const SocketAddress& address) {
  const FileDescriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return connect(probe.get(), address.get(), address.size) != 0 && errno == ECONNREFUSED;
}

absl::StatusOr<std::vector<FileDescriptor>> ListenOnPath(const std::string& text,
                                                         const std::string& path) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  const SocketAddress address = Copy(&name, sizeof(name));
  FileDescriptor socket = OpenSocket(address);
  if (!socket.valid() && errno == EADDRINUSE) {
    if (IsNoSocket(path)) return CannotListen(text, "the file exists and is not a socket");
    if (IsStale(address) && unlink(path.c_str()) == 0) socket = OpenSocket(address);
  }
  if (!socket.valid()) return CannotListen(text, Reason(errno));
  return Only(std::move(socket));
}

}  // namespace

absl::StatusOr<std::vector<FileDescriptor>> ListenOn(const std::string& address) {
  ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  if (!parsed.path.empty()) return ListenOnPath(address, parsed.path);
  if (parsed.host == "0.0.0.0" || parsed.host == "::") {
    return ListenOnWildcard(address, parsed.port);
  }
  ASSIGN_OR_RETURN(const std::vector<SocketAddress> resolved, Resolve(address, parsed));
  return ListenOnAll(address, resolved);
}

int LocalPort(const FileDescriptor& socket) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  auto* const raw = reinterpret_cast<sockaddr*>(&address.storage);
  if (getsockname(socket.get(), raw, &address.size) != 0) return 0;
  if (address.storage.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(raw)->sin_port);
  }
  if (address.storage.ss_family != AF_INET6) return 0;
  return ntohs(reinterpret_cast<const sockaddr_in6*>(raw)->sin6_port);
}

}  // namespace chorale
