// A TCP relay between a client and a server, for connections that break.
#ifndef CHORALE_TESTS_END_TO_END_RELAY_H_
#define CHORALE_TESTS_END_TO_END_RELAY_H_

#include <atomic>
#include <string>
#include <thread>

namespace chorale::end_to_end {

// Passes the bytes of one connection on, both ways, on a thread of its own. Thread-safe.
class Relay {
 public:
  // `server` is "127.0.0.1:port".
  explicit Relay(const std::string& server);
  ~Relay() { Break(); }

  // Where the client connects.
  const std::string& address() const { return address_; }

  // Resets both connections, as the network does when a machine is gone. Returns when it is done.
  void Break();

 private:
  void Run(int server_port);

  std::string address_;
  int listener_ = -1;
  std::atomic<bool> broken_{false};
  std::thread thread_;
};

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_RELAY_H_
