#include "server/net/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/fault.h"
#include "server/net/peer_address.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

// Descriptors of connections are this and up where the limit allows it: below are those that
// libraries which use select() can handle.
constexpr int kFirstDescriptor = 1024;

// Connections accepted from one socket before the thread looks at what else has happened.
constexpr int kAcceptsAtATime = 64;

// Until the next attempt, when not even the spare descriptor helps.
constexpr int kRetryMilliseconds = 100;

// Between two looks at what clients have acknowledged.
constexpr absl::Duration kDeliveryPeriod = absl::Milliseconds(1);

constexpr absl::Duration kRefusalLogPeriod = absl::Seconds(1);

constexpr std::array<const char*, 3> kRefusalNames = {"max_connections", "max_connections_per_peer",
                                                      "no_file_descriptor"};

// Like dup(); invalid if there is no descriptor left.
FileDescriptor Duplicate(const FileDescriptor& descriptor) {
  int duplicate = fcntl(descriptor.get(), F_DUPFD_CLOEXEC, kFirstDescriptor);
  // The limit may be below.
  if (duplicate < 0) duplicate = fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 0);
  return FileDescriptor(duplicate);
}

FileDescriptor OpenSpare() { return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// Of accept(): the process, or the machine, has no descriptor or memory left.
bool IsShortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// Of accept(): the socket will never be able to accept again. All other errors are those of one
// connection, which is gone.
bool IsForGood(int error) {
  return error == EBADF || error == EINVAL || error == ENOTSOCK || error == EOPNOTSUPP ||
         error == EFAULT;
}

}  // namespace

const char* NameOf(Refusal refusal) { return kRefusalNames[static_cast<size_t>(refusal)]; }

Listener::Listener(const Clock* clock, std::vector<FileDescriptor> sockets, ConnectionLimits limits,
                   Handlers handlers)
    : clock_(clock),
      limits_(limits),
      handlers_(std::move(handlers)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      sockets_(std::move(sockets)),
      spare_(OpenSpare()) {
  Watch(wake_.get(), EPOLLIN);
  for (const FileDescriptor& socket : sockets_) Watch(socket.get(), EPOLLIN);
  watches_sockets_ = true;
  thread_ = std::thread([this] { Run(); });
}

Listener::~Listener() {
  {
    MutexLock lock(&mutex_);
    end_ = true;
  }
  Wake();
  thread_.join();
}

void Listener::PauseAccepting(bool pause) {
  {
    MutexLock lock(&mutex_);
    if (pause_ == pause) return;
    pause_ = pause;
  }
  Wake();
}

void Listener::StopAccepting() {
  MutexLock lock(&mutex_);
  stop_ = true;
  Wake();
  while (!has_stopped_) stopped_.Wait(&mutex_);
}

int64_t Listener::connections() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(connections_.size());
}

void Listener::EndWriting() {
  MutexLock lock(&mutex_);
  for (const auto& [fd, connection] : connections_) shutdown(fd, SHUT_WR);
}

bool Listener::WaitUntilDelivered(absl::Time deadline) const {
  while (!IsAllDelivered()) {
    if (clock_->Now() >= deadline) return false;
    absl::SleepFor(kDeliveryPeriod);
  }
  return true;
}

bool Listener::IsAllDelivered() const {
  MutexLock lock(&mutex_);
  return std::all_of(connections_.begin(), connections_.end(), [](const auto& entry) {
    int bytes = 0;
    return ioctl(entry.first, TIOCOUTQ, &bytes) != 0 || bytes == 0;
  });
}

void Listener::AllowMessage(const std::string& endpoint) {
  MutexLock lock(&allowances_mutex_);
  const auto found = allowances_.find(endpoint);
  if (found != allowances_.end()) found->second.bytes.AddMessage();
}

// Sockets that are not TCP's have received nothing that ReceivedBytes knows of.
bool Listener::HasExceededAllowance(const Connection& connection, int64_t received) {
  if (!connection.endpoint.has_value()) return false;
  MutexLock lock(&allowances_mutex_);
  const auto found = allowances_.find(*connection.endpoint);
  // Another connection may have the port by now.
  return found != allowances_.end() && found->second.descriptor == connection.descriptor.get() &&
         found->second.bytes.IsExceeded(received);
}

int64_t Listener::EndFloods() {
  MutexLock lock(&mutex_);
  int64_t ended = 0;
  for (auto& [fd, connection] : connections_) {
    const int64_t before = std::exchange(connection.marked_bytes, ReceivedBytes(fd));
    if (!HasExceededAllowance(connection, connection.marked_bytes - before)) continue;
    shutdown(fd, SHUT_RDWR);
    ++ended;
    LogEvent(spdlog::level::warn, "connection_ended",
             {{"reason", std::string("flood")},
              {"peer", connection.peer},
              {"received_bytes", connection.marked_bytes}});
  }
  return ended;
}

int64_t Listener::EndBusiest(BusySince since) {
  MutexLock lock(&mutex_);
  std::vector<int> descriptors;
  std::vector<int64_t> bytes;
  for (const auto& [fd, connection] : connections_) {
    descriptors.push_back(fd);
    const int64_t before = since == BusySince::kMark ? connection.marked_bytes : 0;
    bytes.push_back(ReceivedBytes(fd) - before);
  }
  const std::vector<size_t> busiest = Busiest(bytes);
  for (const size_t position : busiest) shutdown(descriptors[position], SHUT_RDWR);
  return static_cast<int64_t>(busiest.size());
}

void Listener::Run() {
  std::array<epoll_event, 64> events;
  while (!TakeOrders()) {
    const int count =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), /*timeout=*/-1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      const bool listens =
          std::any_of(sockets_.begin(), sockets_.end(),
                      [&](const FileDescriptor& socket) { return socket.get() == fd; });
      if (listens) {
        AcceptWaiting(fd);
      } else if (fd != wake_.get() && (events[i].events & EPOLLHUP) != 0) {
        Forget(fd);
      }
    }
  }
}

bool Listener::TakeOrders() {
  uint64_t count = 0;
  (void)!read(wake_.get(), &count, sizeof(count));
  MutexLock lock(&mutex_);
  if (stop_ || end_) {
    sockets_.clear();
    has_stopped_ = true;
    stopped_.NotifyAll();
  }
  if (watches_sockets_ == pause_) {
    watches_sockets_ = !pause_;
    for (const FileDescriptor& socket : sockets_) {
      epoll_event event = {};
      event.events = watches_sockets_ ? uint32_t{EPOLLIN} : 0;
      event.data.fd = socket.get();
      epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket.get(), &event);
    }
  }
  return end_;
}

bool Listener::IsPaused() const {
  MutexLock lock(&mutex_);
  return pause_;
}

void Listener::Watch(int fd, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void Listener::AcceptWaiting(int socket) {
  for (int i = 0; i < kAcceptsAtATime && !IsPaused(); ++i) {
    sockaddr_storage address = {};
    socklen_t size = sizeof(address);
    FileDescriptor accepted(accept4(socket, reinterpret_cast<sockaddr*>(&address), &size,
                                    SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted.valid()) {
      Admit(std::move(accepted), address);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (IsShortage(errno)) {
      RefuseWithSpare(socket);
    } else if (IsForGood(errno)) {
      Fail(errno);
      return;
    }
  }
}

void Listener::RefuseWithSpare(int socket) {
  spare_.Reset();
  FileDescriptor accepted(accept4(socket, nullptr, nullptr, SOCK_CLOEXEC));
  const bool refused = accepted.valid();
  accepted.Reset();
  spare_ = OpenSpare();
  if (refused) {
    Refuse(Refusal::kNoDescriptor);
  } else {
    // Another thread was faster, or the machine is short of files as a whole.
    absl::SleepFor(absl::Milliseconds(kRetryMilliseconds));
  }
}

void Listener::Admit(FileDescriptor accepted, const sockaddr_storage& address) {
  FileDescriptor duplicate = Duplicate(accepted);
  FileDescriptor connection = Duplicate(accepted);
  if (!duplicate.valid() || !connection.valid() || FaultAt(FaultPlace::kAccept)) {
    return Refuse(Refusal::kNoDescriptor);
  }
  Refusal why = Refusal::kTotal;
  const PeerAddress from(address);
  const std::string peer = from.client();
  Connection added{.descriptor = std::move(duplicate), .peer = peer, .endpoint = from.endpoint()};
  if (!TryAdd(std::move(added), &why)) return Refuse(why);
  const int yes = 1;
  setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));  // not a Unix socket's
  handlers_.accepted(std::move(connection), peer);
}

bool Listener::TryAdd(Connection connection, Refusal* why) {
  MutexLock lock(&mutex_);
  if (static_cast<int64_t>(connections_.size()) >= limits_.total) {
    *why = Refusal::kTotal;
    return false;
  }
  const auto found = per_peer_.find(connection.peer);
  if (found != per_peer_.end() && found->second >= limits_.per_peer) {
    *why = Refusal::kPerPeer;
    return false;
  }
  ++per_peer_[connection.peer];
  const int fd = connection.descriptor.get();
  if (connection.endpoint.has_value()) {
    MutexLock allowances(&allowances_mutex_);
    allowances_.insert_or_assign(*connection.endpoint,
                                 Allowance{fd, TrafficAllowance(limits_.message_bytes)});
  }
  connections_.emplace(fd, std::move(connection));
  // Hang-ups alone, which are always told. By edge: an error that stays is told once.
  Watch(fd, EPOLLET);
  return true;
}

void Listener::Refuse(Refusal reason) {
  handlers_.refused(reason);
  RefusalCount& count = refusals_[static_cast<size_t>(reason)];
  ++count.since_logged;
  const absl::Time now = clock_->Now();
  if (now - count.logged < kRefusalLogPeriod) return;
  LogEvent(spdlog::level::warn, "connections_refused",
           {{"reason", std::string(NameOf(reason))}, {"count", count.since_logged}});
  count = {.since_logged = 0, .logged = now};
}

void Listener::Fail(int error) {
  sockets_.clear();
  handlers_.failed(absl::UnavailableError(
      absl::StrCat("cannot accept connections: ", std::generic_category().message(error))));
}

void Listener::Forget(int descriptor) {
  MutexLock lock(&mutex_);
  const auto found = connections_.find(descriptor);
  if (found == connections_.end()) return;
  const auto peer = per_peer_.find(found->second.peer);
  if (--peer->second == 0) per_peer_.erase(peer);
  if (found->second.endpoint.has_value()) {
    MutexLock allowances(&allowances_mutex_);
    const auto allowance = allowances_.find(*found->second.endpoint);
    // Another connection may have the port by now.
    if (allowance != allowances_.end() && allowance->second.descriptor == descriptor) {
      allowances_.erase(allowance);
    }
  }
  // To close the duplicate is not enough: the socket may still have its other descriptor.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  connections_.erase(found);
}

void Listener::Wake() const {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

}  // namespace chorale
