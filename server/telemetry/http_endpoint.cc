#include "server/telemetry/http_endpoint.h"

#include <microhttpd.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace chorale {
namespace {

// For several scrapers, probes, and people with browsers.
constexpr size_t kMaxConnections = 100;
// Connections that were told to make room may take a moment to go.
constexpr unsigned int kConnectionLimit = kMaxConnections + 28;
// A connection on which nothing moves for so long is closed.
constexpr unsigned int kIdleSeconds = 5;
// Of a connection's request.
constexpr size_t kMaxRequestBytes = 16 << 10;

constexpr int kWorkers = 2;

constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kPrometheusText[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kHtml[] = "text/html; charset=utf-8";

constexpr char kIndex[] = R"(<!DOCTYPE html>
<html lang="en">
<title>Chorale</title>
<h1>Chorale</h1>
<ul>
<li><a href="/metrics">/metrics</a>: for Prometheus</li>
<li><a href="/healthz">/healthz</a>: whether the process should live</li>
<li><a href="/readyz">/readyz</a>: whether calls are admitted</li>
</ul>
</html>
)";

std::string MetricsPage(const std::vector<std::shared_ptr<prometheus::Collectable>>& collectables) {
  std::vector<prometheus::MetricFamily> families;
  for (const auto& collectable : collectables) {
    std::vector<prometheus::MetricFamily> more = collectable->Collect();
    std::move(more.begin(), more.end(), std::back_inserter(families));
  }
  return prometheus::TextSerializer().Serialize(families);
}

MHD_Result Answer(MHD_Connection* connection, unsigned int status, absl::string_view body,
                  const char* type = kText) {
  MHD_Response* const response = MHD_create_response_from_buffer(
      body.size(), const_cast<char*>(body.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  const MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

MHD_Result AnswerProbe(MHD_Connection* connection, bool ok, const char* otherwise) {
  return ok ? Answer(connection, MHD_HTTP_OK, "ok\n")
            : Answer(connection, MHD_HTTP_SERVICE_UNAVAILABLE, otherwise);
}

}  // namespace

// A request, from its headers to the end of its answer.
struct HttpEndpoint::Scrape {
  MHD_Connection* connection = nullptr;
  std::shared_ptr<const std::string> page;  // of /metrics, when it is there
};

struct HttpEndpoint::Callbacks {
  // Called when the headers are there, for each part of a body, and at the end of the request; and
  // again when a scrape is done.
  static MHD_Result Handle(void* self, MHD_Connection* connection, const char* path,
                           const char* method, const char* /*version*/, const char* /*body*/,
                           size_t* body_bytes, void** state) {
    auto* const endpoint = static_cast<HttpEndpoint*>(self);
    if (*state == nullptr) {
      *state = new Scrape{connection, nullptr};
      const absl::string_view name = method;
      if (name == MHD_HTTP_METHOD_GET || name == MHD_HTTP_METHOD_HEAD) return MHD_YES;
      return Answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are supported\n");
    }
    if (*body_bytes > 0) {  // nobody needs it
      *body_bytes = 0;
      return MHD_YES;
    }
    return Page(endpoint, static_cast<Scrape*>(*state), path);
  }

  static MHD_Result Page(HttpEndpoint* endpoint, Scrape* scrape, absl::string_view path) {
    MHD_Connection* const connection = scrape->connection;
    if (path == "/metrics") {
      if (scrape->page != nullptr) {
        return Answer(connection, MHD_HTTP_OK, *scrape->page, kPrometheusText);
      }
      if (endpoint->Queue(scrape)) return MHD_YES;
      return Answer(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is stopping\n");
    }
    if (path == "/healthz") {
      return AnswerProbe(connection, endpoint->sources_.alive(),
                         "the server has failed: restart the process\n");
    }
    if (path == "/readyz") {
      return AnswerProbe(connection, endpoint->sources_.ready(),
                         "the server admits no calls at the moment\n");
    }
    if (path == "/") return Answer(connection, MHD_HTTP_OK, kIndex, kHtml);
    return Answer(connection, MHD_HTTP_NOT_FOUND, "page not found\n");
  }

  static void Completed(void* /*self*/, MHD_Connection* /*connection*/, void** state,
                        MHD_RequestTerminationCode /*why*/) {
    delete static_cast<Scrape*>(std::exchange(*state, nullptr));
  }

  static void ConnectionChanged(void* self, MHD_Connection* connection, void** /*state*/,
                                MHD_ConnectionNotificationCode what) {
    const int fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    auto* const endpoint = static_cast<HttpEndpoint*>(self);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
      endpoint->Opened(fd);
    } else {
      endpoint->Closed(fd);
    }
  }
};

HttpEndpoint::HttpEndpoint(Sources sources) : sources_(std::move(sources)) {}

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(FileDescriptor socket,
                                                                  Sources sources) {
  auto endpoint = std::unique_ptr<HttpEndpoint>(new HttpEndpoint(std::move(sources)));
  if (!endpoint->StartDaemon(std::move(socket))) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics: ", std::generic_category().message(errno)));
  }
  for (int i = 0; i < kWorkers; ++i) {
    endpoint->workers_.emplace_back([raw = endpoint.get()] { raw->Work(); });
  }
  return endpoint;
}

bool HttpEndpoint::StartDaemon(FileDescriptor socket) {
  daemon_ = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, /*port=*/0,
                             /*accept_policy=*/nullptr, nullptr, &Callbacks::Handle, this,       //
                             MHD_OPTION_LISTEN_SOCKET, socket.get(),                             //
                             MHD_OPTION_NOTIFY_COMPLETED, &Callbacks::Completed, this,           //
                             MHD_OPTION_NOTIFY_CONNECTION, &Callbacks::ConnectionChanged, this,  //
                             MHD_OPTION_CONNECTION_LIMIT, kConnectionLimit,                      //
                             MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds,                        //
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, kMaxRequestBytes, MHD_OPTION_END);
  if (daemon_ == nullptr) return false;
  (void)socket.Release();  // the library closes it
  return true;
}

HttpEndpoint::~HttpEndpoint() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  // The library does not stop while connections are suspended: the threads see to those that wait.
  for (std::thread& worker : workers_) worker.join();
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

void HttpEndpoint::Opened(int connection) {
  connections_.push_back(connection);
  if (connections_.size() <= kMaxConnections) return;
  shutdown(connections_.front(), SHUT_RDWR);
  connections_.pop_front();
}

void HttpEndpoint::Closed(int connection) {
  const auto found = std::find(connections_.begin(), connections_.end(), connection);
  if (found != connections_.end()) connections_.erase(found);
}

bool HttpEndpoint::Queue(Scrape* scrape) {
  MutexLock lock(&mutex_);
  if (stopping_) return false;
  MHD_suspend_connection(scrape->connection);  // before a worker may resume it
  waiting_.push_back(scrape);
  changed_.NotifyOne();
  return true;
}

std::vector<HttpEndpoint::Scrape*> HttpEndpoint::WaitingScrapes() {
  MutexLock lock(&mutex_);
  while (waiting_.empty() && !stopping_) changed_.Wait(&mutex_);
  return std::exchange(waiting_, {});
}

void HttpEndpoint::Work() {
  for (std::vector<Scrape*> scrapes; !(scrapes = WaitingScrapes()).empty();) {
    const auto page = std::make_shared<const std::string>(MetricsPage(sources_.collectables));
    for (Scrape* const scrape : scrapes) {
      scrape->page = page;
      MHD_resume_connection(scrape->connection);  // which may end the scrape
    }
  }
}

}  // namespace chorale
