// Client::Connect with servers that are late, absent, or use TLS differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/file_descriptor.h"
#include "client/cpp/cancellation.h"
#include "client/cpp/client.h"
#include "client/cpp/tls_diagnosis.h"
#include "tests/client/cpp/fake_service.h"
#include "tests/support/eventually.h"
#include "tests/support/reserved_port.h"
#include "tests/support/test_authority.h"

// The leak sanitizer asks this. Debian's c-ares loses ten bytes whenever it looks up "localhost".
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __lsan_default_suppressions() { return "leak:libcares.so\n"; }

namespace chorale::client {
namespace {

using ::testing::HasSubstr;

ClientOptions Within(absl::Duration connect_timeout) {
  ClientOptions options;
  options.connect_timeout = connect_timeout;
  return options;
}

TEST(ConnectTest, WaitsForAServerThatStartsLater) {
  const ReservedPort port;
  std::unique_ptr<FakeServer> server;
  std::thread late([&] {
    absl::SleepFor(absl::Milliseconds(200));
    server = std::make_unique<FakeServer>(port.address());
  });
  const auto client = Client::Connect(port.address(), Within(kPatience));
  late.join();
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->ListModels().ok());
}

TEST(ConnectTest, GivesUpAtItsTimeoutAndSaysWhy) {
  const ReservedPort port;
  const absl::Time start = absl::Now();
  const absl::Status status = Client::Connect(port.address(), Within(absl::Seconds(1))).status();
  const absl::Duration took = absl::Now() - start;
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.message()),
            absl::StrCat("no server at ", port.address(), ": Connection refused"));
  EXPECT_GE(took, absl::Seconds(1));
  EXPECT_LT(took, kPatience);
}

TEST(ConnectTest, EndsSoonAfterItIsCancelled) {
  const ReservedPort port;
  Cancellation cancellation;
  std::thread canceller([&] {
    absl::SleepFor(absl::Milliseconds(100));
    cancellation.Cancel();
  });
  const auto client = Client::Connect(port.address(), Within(2 * kPatience), &cancellation);
  canceller.join();
  EXPECT_EQ(client.status().code(), absl::StatusCode::kCancelled);
}

// Names a proxy in the environment, as for all addresses, until it is destroyed.
class HttpProxy {
 public:
  explicit HttpProxy(const std::string& address) {
    for (const char* name : {"no_grpc_proxy", "no_proxy", "grpc_proxy", "https_proxy"}) {
      unsetenv(name);
    }
    setenv("http_proxy", absl::StrCat("http://", address).c_str(), 1);
  }
  ~HttpProxy() { unsetenv("http_proxy"); }
  HttpProxy(const HttpProxy&) = delete;
  HttpProxy& operator=(const HttpProxy&) = delete;
};

// A token may go there without encryption.
TEST(ConnectTest, AProxyIsNotAskedForThisMachine) {
  const FakeServer server;
  const ReservedPort nobody;
  const HttpProxy proxy(nobody.address());
  const std::string port = server.address().substr(server.address().rfind(':'));
  for (const std::string& address : {server.address(), absl::StrCat("localhost", port)}) {
    ClientOptions options = Within(kPatience);
    options.token = "secret";
    const auto client = Client::Connect(address, options);
    EXPECT_TRUE(client.ok()) << client.status();
  }
}

TEST(ConnectTest, AProxyIsAskedForOtherMachines) {
  const ReservedPort nobody;
  const HttpProxy proxy(nobody.address());
  absl::Status status;
  // Until the time to connect is enough for the proxy's answer.
  EXPECT_TRUE(Eventually([&status] {
    status = Client::Connect("server.invalid:50051", Within(absl::Seconds(1))).status();
    return absl::StrContains(status.message(), "Connection refused");
  })) << status;
}

// Servers with and without TLS.
class TlsTest : public ::testing::Test {
 protected:
  // The error of connecting to `server`, which comes before any timeout.
  static absl::Status Connect(const FakeServer& server, const TlsOptions& tls) {
    ClientOptions options = Within(2 * kPatience);
    options.tls = tls;
    const absl::Time start = absl::Now();
    absl::Status status = Client::Connect(server.address(), options).status();
    EXPECT_LT(absl::Now() - start, kPatience);
    return status;
  }
  // The error of connecting to `address`, with longer and longer timeouts until it contains `what`.
  static absl::Status ConnectUntil(const std::string& what, const std::string& address,
                                   ClientOptions options) {
    absl::Status status;
    options.connect_timeout = absl::Milliseconds(200);
    do {
      status = Client::Connect(address, options).status();
      options.connect_timeout *= 2;
    } while (!absl::StrContains(status.message(), what) && options.connect_timeout < kPatience);
    return status;
  }
  static void ExpectDisagreement(const absl::Status& status, const std::string& what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
  static TlsOptions Trusting(const TestPair& certificate) {
    return {.root_certificates = certificate.certificate};
  }
  static std::shared_ptr<grpc::ServerCredentials> Credentials(
      const TestPair& own, const std::string& client_roots = "") {
    grpc::SslServerCredentialsOptions options(
        client_roots.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                             : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_key_cert_pairs.push_back({own.key, own.certificate});
    options.pem_root_certs = client_roots;
    return grpc::SslServerCredentials(options);
  }

  // Not by host name: that needs the resolver, whose library leaks a few bytes each time.
  static TestPair CertificateFor(const std::string& address,
                                 absl::Duration valid_from = -absl::Hours(24),
                                 absl::Duration valid_until = absl::Hours(24)) {
    return SelfSigned({address, "IP:" + address, valid_from, valid_until});
  }

  const TestPair own_ = CertificateFor("127.0.0.1");
  FakeServer tls_{"127.0.0.1:0", Credentials(own_)};
  FakeServer plain_;
};

TEST_F(TlsTest, AgreesWithAServerThatIsTrusted) {
  const absl::Status status = Connect(tls_, Trusting(own_));
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(TlsTest, DisagreementsAreNamedAtOnce) {
  const TestPair other = CertificateFor("127.0.0.2");
  const FakeServer misplaced("127.0.0.1:0", Credentials(other));
  ExpectDisagreement(Connect(plain_, Trusting(own_)), "does not speak TLS");
  ExpectDisagreement(Connect(tls_, Trusting(other)),
                     "is not signed by an authority that this client trusts");
  ExpectDisagreement(Connect(misplaced, Trusting(other)), "is for another name");
}

TEST_F(TlsTest, SaysWhyACertificateIsNotTrusted) {
  const TestPair old = CertificateFor("127.0.0.1", -absl::Hours(72), -absl::Hours(48));
  const TestPair early = CertificateFor("127.0.0.1", absl::Hours(48), absl::Hours(72));
  const FakeServer expired("127.0.0.1:0", Credentials(old));
  const FakeServer not_yet("127.0.0.1:0", Credentials(early));
  ExpectDisagreement(Connect(expired, Trusting(old)), "has expired");
  ExpectDisagreement(Connect(not_yet, Trusting(early)),
                     "is not valid yet, or this machine's clock");
  EXPECT_EQ(WhyNotTrusted("127.0.0.1:1", ""), "");  // nobody is there
  EXPECT_EQ(WhyNotTrusted("nonsense", ""), "");
  EXPECT_EQ(WhyNotTrusted(plain_.address(), ""), "");
  EXPECT_EQ(WhyNotTrusted(tls_.address(), own_.certificate), "");
}

// Each read of a byte is in time; all of them would take minutes.
TEST_F(TlsTest, AServerThatSendsSlowlyDoesNotHoldTheDiagnosisUp) {
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listener.get(), generic, size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), generic, &size), 0);
  Cancellation over;
  std::thread server([&] {
    const FileDescriptor connection(accept(listener.get(), nullptr, nullptr));
    // The header of a record of 16 KiB, and zeros.
    std::string bytes("\x16\x03\x03\x40\x00", 5);
    while (send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0 &&
           SleepUntil(Clock::Real()->Now() + absl::Milliseconds(50), {&over})) {
      bytes = std::string(1, '\0');
    }
  });
  const absl::Time start = absl::Now();
  EXPECT_EQ(WhyNotTrusted(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)), "",
                          absl::Milliseconds(200)),
            "");
  EXPECT_LT(absl::Now() - start, kPatience);
  over.Cancel();
  server.join();
}

TEST_F(TlsTest, CertificatesThatAreNoneAreRefused) {
  for (const TlsOptions& tls : {TlsOptions{.root_certificates = "nonsense"},
                                TlsOptions{.root_certificates = own_.certificate,
                                .client_certificate = "no certificate",
                                .client_key = "no key"}}) {
    const absl::Status status = Connect(tls_, tls);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("not valid PEM"));
  }
}

TEST_F(TlsTest, ATokenGoesWithEveryCall) {
  ClientOptions options = Within(kPatience);
  options.token = "secret";
  options.tls = Trusting(own_);
  const auto encrypted = Client::Connect(tls_.address(), options);
  ASSERT_TRUE(encrypted.ok()) << encrypted.status();
  EXPECT_TRUE((*encrypted)->ListModels().ok());
  EXPECT_EQ(tls_.service().authorization(), "Bearer secret");
  // To this machine it goes without encryption as well.
  options.tls.reset();
  const auto plain = Client::Connect(plain_.address(), options);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_FALSE((*plain)->GetContext("none").ok());
  EXPECT_EQ(plain_.service().authorization(), "Bearer secret");
}

TEST_F(TlsTest, ATokenLeavesThisMachineOnlyEncrypted) {
  ClientOptions options = Within(absl::Milliseconds(1));
  options.token = "secret";
  for (const char* address : {"server.example:50051", "10.0.0.1:50051", "[2001:db8::1]:1"}) {
    const absl::Status status = Client::Connect(address, options).status();
    EXPECT_EQ(status,
              absl::InvalidArgumentError(absl::StrCat("token: not sent to ", address,
                                                      " without encryption; connect with TLS")));
  }
  for (const char* token : {"two words", "line\n", "\xC3\xA9"}) {
    options.token = token;
    const absl::Status status = Client::Connect(plain_.address(), options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("printable ASCII"));
  }
}

// Such servers just close the connection, as a server that is shutting down does: worth a retry.
TEST_F(TlsTest, AServerThatWantsMoreIsGuessedAt) {
  ClientOptions options;
  const std::string no_tls = "it may require TLS";
  const absl::Status plain = ConnectUntil(no_tls, tls_.address(), options);
  EXPECT_EQ(plain.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(plain.message()), HasSubstr(no_tls));
  const FakeServer mutual("127.0.0.1:0", Credentials(own_, own_.certificate));
  options.tls = Trusting(own_);
  const std::string no_certificate = "it may require a client certificate";
  const absl::Status anonymous = ConnectUntil(no_certificate, mutual.address(), options);
  EXPECT_EQ(anonymous.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(anonymous.message()), HasSubstr(no_certificate));
  const TestPair old = CertificateFor("127.0.0.1", -absl::Hours(72), -absl::Hours(48));
  const TestPair stranger = CertificateFor("127.0.0.2");
  for (const auto& [certificate, what] :
       {std::pair{&old, "this client's certificate has expired"},
        {&stranger, "it may not accept this client's certificate"}}) {
    options.tls->client_certificate = certificate->certificate;
    options.tls->client_key = certificate->key;
    const absl::Status refused = ConnectUntil(what, mutual.address(), options);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(what));
  }
  options.connect_timeout = kPatience;
  options.tls->client_certificate = own_.certificate;
  options.tls->client_key = own_.key;
  EXPECT_TRUE(Client::Connect(mutual.address(), options).ok());
}

}  // namespace
}  // namespace chorale::client
