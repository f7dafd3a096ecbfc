// Whatever frames a client sends, the server ends the connection or waits for more, and serves
// other clients.
//
// Input: frames, each as kind, flags, stream and length (two bytes, little-endian) before so many
// bytes of payload. Kinds up to 9 are those of RFC 9113, with the stream and the payload as they
// are; kind 10 is the headers of a call of method `flags`, kind 11 a message in a DATA frame; any
// other one sends the payload itself. The first bit of the first kind leaves out the preface.
#include <netinet/in.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "chorale/v1/chorale.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/server.h"
#include "server/telemetry/method.h"
#include "tests/server/fake_engine.h"

namespace chorale {
namespace {

constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr uint8_t kData = 0;
constexpr uint8_t kHeaders = 1;
constexpr uint8_t kEndStream = 1;
constexpr uint8_t kEndHeaders = 4;
// A call by another client after so many inputs.
constexpr int kInputsBetweenCalls = 100;
constexpr int kConnectAttempts = 30;

void Require(bool condition) {
  if (!condition) std::abort();
}

std::string Frame(uint8_t type, uint8_t flags, uint8_t stream, absl::string_view payload) {
  std::string frame;
  for (const size_t byte : {payload.size() >> 16, payload.size() >> 8, payload.size()}) {
    frame.push_back(static_cast<char>(byte));
  }
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  frame.append({0, 0, 0, static_cast<char>(stream)});
  return absl::StrCat(frame, payload);
}

// A literal field that is not indexed, without Huffman code (RFC 7541, 6.2.2).
std::string Field(absl::string_view name, absl::string_view value) {
  return absl::StrCat(std::string(1, '\0'), std::string(1, static_cast<char>(name.size())), name,
                      std::string(1, static_cast<char>(value.size())), value);
}

std::string CallHeaders(uint8_t method) {
  return absl::StrCat(Field(":method", "POST"), Field(":scheme", "http"),
                      Field(":path", absl::StrCat("/chorale.v1.Chorale/",
                                                  kMethodNames[method % kMethodNames.size()])),
                      Field(":authority", "localhost"), Field("te", "trailers"),
                      Field("content-type", "application/grpc"));
}

std::string Message(absl::string_view payload) {
  std::string message(1, '\0');
  for (const int shift : {24, 16, 8, 0}) {
    message.push_back(static_cast<char>(payload.size() >> shift));
  }
  return absl::StrCat(message, payload);
}

std::string Bytes(absl::string_view input) {
  std::string bytes;
  if (input.empty() || (input[0] & 0x80) == 0) {
    bytes = absl::StrCat(kPreface, Frame(4, 0, 0, ""));  // and empty SETTINGS
  }
  while (input.size() >= 5) {
    const auto kind = static_cast<uint8_t>(input[0] & 0x7f);
    const auto flags = static_cast<uint8_t>(input[1]);
    const auto stream = static_cast<uint8_t>(input[2]);
    const size_t length = static_cast<uint8_t>(input[3]) | static_cast<uint8_t>(input[4]) << 8;
    const absl::string_view payload = input.substr(5, length);
    input.remove_prefix(5 + payload.size());
    if (kind <= 9) {
      absl::StrAppend(&bytes, Frame(kind, flags, stream, payload));
    } else if (kind == 10) {
      absl::StrAppend(&bytes, Frame(kHeaders, kEndHeaders, stream, CallHeaders(flags)));
    } else if (kind == 11) {
      absl::StrAppend(&bytes, Frame(kData, flags & kEndStream, stream, Message(payload)));
    } else {
      absl::StrAppend(&bytes, payload);
    }
  }
  return bytes;
}

class ServerUnderTest {
 public:
  ServerUnderTest() {
    spdlog::set_level(spdlog::level::off);
    setenv("GRPC_VERBOSITY", "NONE", 1);
    ServerOptions options;
    options.listen_address = "127.0.0.1:0";
    options.metrics_address = "";
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(options);
    Require(server.ok());
    server_ = *std::move(server);
    auto engine = std::make_unique<FakeEngine>();
    engine_ = engine.get();
    engine_->on_predict = [](const PredictRequest&) { return PredictResult(); };
    engine_->on_log_density = [](const LogDensityRequest&) { return LogDensityResult(); };
    engine_->on_warm = [](const std::string&) { return absl::NotFoundError("none"); };
    Require(server_
                ->Open([&](PrometheusMetrics*)
                           -> absl::StatusOr<std::unique_ptr<Engine>> { return std::move(engine); },
                       {})
                .ok());
    stub_ = v1::Chorale::NewStub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                                     grpc::InsecureChannelCredentials()));
  }

  // The machine may be short of ports for a moment, which is not the server's fault.
  static void Connect(int connection, const sockaddr_in& address) {
    for (int attempt = 0; attempt < kConnectAttempts; ++attempt) {
      if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
        return;
      }
      std::perror("http2_fuzz: connect");
      absl::SleepFor(absl::Seconds(1));
    }
    Require(false);
  }

  // Sends the bytes by a connection of their own, and reads until the server has closed it.
  void Send(absl::string_view bytes) {
    const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    Connect(connection, address);
    while (!bytes.empty()) {
      const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;  // the server has closed it
      bytes.remove_prefix(sent);
    }
    shutdown(connection, SHUT_WR);
    char answer[4096];
    while (recv(connection, answer, sizeof(answer), 0) > 0) {
    }
    close(connection);
    while (const std::shared_ptr<FakeSample> sample = engine_->NextSample(absl::ZeroDuration())) {
      sample->call->End(absl::CancelledError("nobody reads it"));
    }
  }

  // Another client is served.
  void Call() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    v1::ListModelsResponse response;
    Require(stub_->ListModels(&context, v1::ListModelsRequest(), &response).ok());
  }

 private:
  std::unique_ptr<Server> server_;
  FakeEngine* engine_ = nullptr;
  std::unique_ptr<v1::Chorale::Stub> stub_;
};

}  // namespace
}  // namespace chorale

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Ends before spdlog does: the last calls are logged.
  static chorale::ServerUnderTest server;
  static int inputs = 0;
  server.Send(chorale::Bytes(absl::string_view(reinterpret_cast<const char*>(data), size)));
  if (++inputs % chorale::kInputsBetweenCalls == 0) server.Call();
  return 0;
}
