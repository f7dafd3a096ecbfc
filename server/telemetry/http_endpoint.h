// The HTTP endpoint for Prometheus, and for probes that do not speak gRPC.
#ifndef CHORALE_SERVER_TELEMETRY_HTTP_ENDPOINT_H_
#define CHORALE_SERVER_TELEMETRY_HTTP_ENDPOINT_H_

#include <prometheus/collectable.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"

struct MHD_Daemon;

namespace chorale {

// Serves until it is destroyed, on its own threads:
//   GET /metrics   all collectables, in Prometheus' text format
//   GET /healthz   200 while the process should live, else 503: restart it
//   GET /readyz    200 while the server admits calls, else 503
//   GET /          a page with links to these
//
// One thread serves all connections, so a connection that sends half a request, or does not read
// its response, delays no other connection. The limit is 100 connections: the oldest is closed for
// a new one. Two other threads make scrapes: a scrape that waits for a disk delays no other scrape,
// and no probe. Requests that wait for a scrape at the same time get the same page, so many
// requests cost as much as one.
class HttpEndpoint {
 public:
  struct Sources {
    std::vector<std::shared_ptr<prometheus::Collectable>> collectables;
    std::function<bool()> alive;  // this and the next one must not block
    std::function<bool()> ready;
  };

  // `socket` listens, and does not block. Unavailable if the system lacks resources. The functions
  // are called by several threads at a time, until the endpoint is destroyed.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(FileDescriptor socket,
                                                             Sources sources);
  ~HttpEndpoint();  // waits for scrapes in progress
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

 private:
  struct Scrape;
  struct Callbacks;  // callbacks of the HTTP library
  friend struct Callbacks;

  explicit HttpEndpoint(Sources sources);

  bool StartDaemon(FileDescriptor socket);
  // Suspends the connection of the scrape until its page is complete; false if the endpoint stops.
  bool Queue(Scrape* scrape);
  void Opened(int connection);
  void Closed(int connection);
  // Run on the threads that make scrapes.
  void Work();
  // All waiting scrapes, at least one; none when the thread must end.
  std::vector<Scrape*> WaitingScrapes();

  const Sources sources_;
  MHD_Daemon* daemon_ = nullptr;
  std::deque<int> connections_;  // the oldest first; for the HTTP library's thread alone

  Mutex mutex_;
  CondVar changed_;
  std::vector<Scrape*> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_HTTP_ENDPOINT_H_
