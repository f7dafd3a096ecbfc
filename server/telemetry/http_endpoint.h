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
//   GET /healthz   200 while the process should live, else 503: it should be started anew
//   GET /readyz    200 while calls are admitted, else 503
//   GET /          a page with links to these
//
// One thread serves all connections, so one that sends half a request, or does not read its answer,
// holds up no other. There are at most 100 of them: the oldest makes room for the next. Scrapes are
// made by two other threads: one that waits for a disk holds up no other, and no probe. Requests
// that wait for one at the same time get the same page, so that many cost as much as one.
class HttpEndpoint {
 public:
  struct Sources {
    std::vector<std::shared_ptr<prometheus::Collectable>> collectables;
    std::function<bool()> alive;  // this and the next one must not block
    std::function<bool()> ready;
  };

  // `socket` listens, and does not block. Unavailable if the system has no room for it. The
  // functions are called by several threads at a time, until the endpoint is destroyed.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(FileDescriptor socket,
                                                             Sources sources);
  ~HttpEndpoint();  // waits for scrapes in progress
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

 private:
  struct Scrape;
  struct Callbacks;  // those of the HTTP library
  friend struct Callbacks;

  explicit HttpEndpoint(Sources sources);

  bool StartDaemon(FileDescriptor socket);
  // Suspends the scrape's connection until its page is there; false if the endpoint stops.
  bool Queue(Scrape* scrape);
  void Opened(int connection);
  void Closed(int connection);
  // Of the threads that scrape.
  void Work();
  // All that wait, at least one; none when the thread is to end.
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
