#include "server/telemetry/http_endpoint.h"

#include <prometheus/registry.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/net/listen.h"
#include "server/telemetry/metric_catalog.h"
#include "server/telemetry/series.h"
#include "tests/server/net/sockets.h"
#include "tests/support/eventually.h"

namespace chorale {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A page of many megabytes, which fits into no socket's buffer, and counts its scrapes.
class LargePage : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    ++scrapes;
    return {{"large", std::string(8 << 20, 'x'), prometheus::MetricType::Gauge, {}}};
  }
  mutable std::atomic<int> scrapes{0};
};

// A page that takes until it is told to go on.
class StalledPage : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    ++scrapes;
    go_on.Wait();
    return {};
  }
  mutable std::atomic<int> scrapes{0};
  mutable Notification go_on;
};

class HttpEndpointTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::shared_ptr<prometheus::Collectable>> more = {}) {
    auto registry = std::make_shared<prometheus::Registry>();
    AddGauge(registry.get(), "chorale_ready")->Set(1);
    more.insert(more.begin(), registry);
    auto sockets = ListenOn("127.0.0.1:0");
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    port_ = LocalPort(sockets->front());
    auto endpoint =
        HttpEndpoint::Start(std::move(sockets->front()), {.collectables = std::move(more),
                                                          .alive = [this] { return alive_.load(); },
                                                          .ready = [] { return true; }});
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = *std::move(endpoint);
  }

  static std::string Request(const std::string& method, const std::string& path) {
    return absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  }
  std::string Get(const std::string& path) { return Ask(Request("GET", path)); }
  std::string Ask(const std::string& request) {
    const FileDescriptor client = Connect(port_);
    Send(client, request);
    return ReadAll(client);
  }

  std::atomic<bool> alive_{true};
  int port_ = 0;
  std::unique_ptr<HttpEndpoint> endpoint_;
};

TEST_F(HttpEndpointTest, ServesItsPages) {
  Start();
  EXPECT_THAT(Get("/metrics"), AllOf(HasSubstr("200 OK"), HasSubstr("text/plain; version=0.0.4"),
                                     HasSubstr("chorale_ready 1\n")));
  EXPECT_THAT(Get("/readyz"), AllOf(HasSubstr("200 OK"), HasSubstr("ok\n")));
  EXPECT_THAT(Get("/healthz"), HasSubstr("200 OK"));
  alive_ = false;
  EXPECT_THAT(Get("/healthz"), HasSubstr("503"));
  EXPECT_THAT(Get("/"), AllOf(HasSubstr("text/html"), HasSubstr("/metrics")));
  EXPECT_THAT(Get("/other"), HasSubstr("404"));
  EXPECT_THAT(Get("/metrics?x=y"), HasSubstr("chorale_ready 1\n"));
}

TEST_F(HttpEndpointTest, OtherMethodsAndBodiesDoNoHarm) {
  Start();
  EXPECT_THAT(Ask(Request("HEAD", "/metrics")),
              AllOf(HasSubstr("200 OK"), Not(HasSubstr("chorale_ready"))));
  EXPECT_THAT(Ask(Request("DELETE", "/metrics")), HasSubstr("405"));
  EXPECT_THAT(Ask("GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
                  "Content-Length: 5\r\n\r\nhello"),
              HasSubstr("chorale_ready 1\n"));
  EXPECT_THAT(
      Ask(absl::StrCat("GET / HTTP/1.1\r\nHost: h\r\nX: ", std::string(100'000, 'x'), "\r\n\r\n")),
      Not(HasSubstr("200 OK")));
  EXPECT_THAT(Get("/metrics"), HasSubstr("200 OK"));
}

TEST_F(HttpEndpointTest, AConnectionTakesSeveralRequests) {
  Start();
  const FileDescriptor client = Connect(port_);
  Send(client, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
  Send(client, Request("GET", "/healthz"));
  EXPECT_THAT(ReadAll(client), AllOf(HasSubstr("chorale_ready 1\n"), HasSubstr("ok\n")));
}

TEST_F(HttpEndpointTest, HalfRequestsHoldUpNoOther) {
  Start();
  std::vector<FileDescriptor> halves;
  for (int i = 0; i < 60; ++i) {
    halves.push_back(Connect(port_));
    Send(halves.back(), "GET /metrics HTTP/1.1\r\nHost:");
  }
  EXPECT_THAT(Get("/metrics"), HasSubstr("chorale_ready 1\n"));
  EXPECT_FALSE(HasEnded(halves.back()));
}

TEST_F(HttpEndpointTest, ManyConnectionsMakeRoomForTheNext) {
  Start();
  std::vector<FileDescriptor> idle;
  for (int i = 0; i < 300; ++i) {
    idle.push_back(Connect(port_));
    Send(idle.back(), "GET");
  }
  EXPECT_THAT(Get("/metrics"), HasSubstr("chorale_ready 1\n"));
  EXPECT_TRUE(HasEnded(idle.front()));
  EXPECT_FALSE(HasEnded(idle.back()));
}

TEST_F(HttpEndpointTest, ReadersThatDoNotReadHoldUpNoOther) {
  const auto page = std::make_shared<LargePage>();
  Start({page});
  std::vector<FileDescriptor> stalled;
  for (int i = 0; i < 10; ++i) {
    stalled.push_back(Connect(port_));
    Send(stalled.back(), Request("GET", "/metrics"));
  }
  for (const FileDescriptor& client : stalled) {
    pollfd readable = {.fd = client.get(), .events = POLLIN, .revents = 0};
    ASSERT_TRUE(Eventually([&] { return poll(&readable, 1, 0) == 1; }));
  }
  EXPECT_THAT(Get("/readyz"), HasSubstr("200 OK"));
  EXPECT_THAT(Get("/metrics"), HasSubstr("chorale_ready 1\n"));
}

// A thousand who ask all the time must not keep the one away whose duty it is.
TEST_F(HttpEndpointTest, RequestsThatWaitTogetherGetOnePage) {
  const auto page = std::make_shared<StalledPage>();
  Start({page});
  std::vector<FileDescriptor> clients;
  const auto ask = [&] {
    clients.push_back(Connect(port_));
    Send(clients.back(), Request("GET", "/metrics"));
  };
  // Both threads are busy.
  for (int busy = 1; busy <= 2; ++busy) {
    ask();
    ASSERT_TRUE(Eventually([&] { return page->scrapes == busy; }));
  }
  for (int i = 0; i < 50; ++i) ask();
  EXPECT_THAT(Get("/readyz"), HasSubstr("200 OK"));  // so that all of the above have arrived
  page->go_on.Notify();
  for (const FileDescriptor& client : clients) {
    EXPECT_THAT(ReadAll(client), HasSubstr("chorale_ready 1\n"));
  }
  EXPECT_LE(page->scrapes, 4);
}

TEST_F(HttpEndpointTest, AScrapeWhoseClientIsGoneEndsWell) {
  const auto page = std::make_shared<LargePage>();
  Start({page});
  for (int i = 0; i < 10; ++i) Send(Connect(port_), Request("GET", "/metrics"));
  EXPECT_TRUE(Eventually([&] { return page->scrapes > 0; }));
  EXPECT_THAT(Get("/metrics"), HasSubstr("chorale_ready 1\n"));
}

}  // namespace
}  // namespace chorale
