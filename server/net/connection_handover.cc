#include "server/net/connection_handover.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <optional>
#include <utility>

namespace chorale {
namespace {

constexpr size_t kHandoverThreads = 16;
constexpr size_t kThreadsPerPeer = kHandoverThreads / 2;
// How often connections are looked at that hold up a thread.
constexpr absl::Duration kLookPeriod = absl::Milliseconds(500);

}  // namespace

ConnectionHandover::ConnectionHandover(const Clock* clock, grpc::ServerBuilder* builder,
                                       const CredentialsMaker& make_credentials)
    : clock_(clock), current_(kHandoverThreads) {
  for (size_t i = 0; i < kHandoverThreads; ++i) {
    credentials_.push_back(make_credentials());
    acceptors_.push_back(builder->experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        credentials_.back()));
  }
}

ConnectionHandover::~ConnectionHandover() { Stop(); }

void ConnectionHandover::Start(int listening) {
  for (size_t i = 0; i < kHandoverThreads; ++i) {
    threads_.emplace_back([this, i, listening] { Work(i, listening); });
  }
  end_held_up_ = std::make_unique<PeriodicTask>(clock_, kLookPeriod, [this] { EndHeldUp(); });
}

void ConnectionHandover::HandOver(FileDescriptor connection, const std::string& peer) {
  MutexLock lock(&mutex_);
  if (stopping_) return;
  waiting_.Push(peer, {std::move(connection), peer});
  work_.NotifyOne();
}

void ConnectionHandover::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    while (!waiting_.empty()) shutdown(waiting_.Pop().connection.get(), SHUT_RDWR);
    for (const Current& current : current_) {
      if (current.duplicate.valid()) shutdown(current.duplicate.get(), SHUT_RDWR);
    }
    work_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  end_held_up_.reset();
}

ConnectionHandover::Waiting ConnectionHandover::Next() {
  const auto may_take = [this](const std::string& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = threads_of_.find(peer);
    return found == threads_of_.end() || found->second < kThreadsPerPeer;
  };
  while (!stopping_) {
    std::optional<Waiting> next = waiting_.PopIf(may_take);
    if (next.has_value()) return *std::move(next);
    work_.Wait(&mutex_);
  }
  return {FileDescriptor(), ""};
}

void ConnectionHandover::Work(size_t thread, int listening) {
  while (true) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listening;  // later gRPC refuses those that come from none
    std::string peer;
    {
      MutexLock lock(&mutex_);
      Waiting next = Next();
      if (!next.connection.valid()) return;
      current_[thread] = {FileDescriptor(fcntl(next.connection.get(), F_DUPFD_CLOEXEC, 0)),
                          clock_->Now() + kPatience};
      parameters.fd = next.connection.Release();
      peer = std::move(next.peer);
      ++threads_of_[peer];
    }
    acceptors_[thread]->HandleNewConnection(&parameters);
    MutexLock lock(&mutex_);
    current_[thread].duplicate.Reset();
    if (--threads_of_[peer] == 0) threads_of_.erase(peer);
  }
}

void ConnectionHandover::EndHeldUp() {
  MutexLock lock(&mutex_);
  const absl::Time now = clock_->Now();
  for (const Current& current : current_) {
    if (current.duplicate.valid() && current.deadline < now) {
      shutdown(current.duplicate.get(), SHUT_RDWR);
    }
  }
}

}  // namespace chorale
