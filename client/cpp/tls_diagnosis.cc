#include "client/cpp/tls_diagnosis.h"

#include <netdb.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/file_descriptor.h"

namespace chorale::client {
namespace {

// Whether it becomes ready for `events` before the deadline.
bool WaitFor(int socket, short events, absl::Time deadline) {  // NOLINT(google-runtime-int): poll's
  pollfd waiting = {.fd = socket, .events = events, .revents = 0};
  const absl::Duration left = std::max(deadline - Clock::Real()->Now(), absl::ZeroDuration());
  return poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(left))) == 1;
}

// Connected; invalid if that fails.
FileDescriptor ConnectTo(const std::string& address, absl::Time deadline) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return FileDescriptor();
  const std::string host = absl::StrReplaceAll(address.substr(0, colon), {{"[", ""}, {"]", ""}});
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found) != 0) {
    return FileDescriptor();
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    constexpr int kType = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    FileDescriptor connection(socket(each->ai_family, kType, 0));
    if (connect(connection.get(), each->ai_addr, each->ai_addrlen) == 0) return connection;
    int error = errno;
    socklen_t size = sizeof(error);
    if (error == EINPROGRESS && WaitFor(connection.get(), POLLOUT, deadline) &&
        getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
      return connection;
    }
  }
  return FileDescriptor();
}

void Trust(const std::string& root_certificates, SSL_CTX* context) {
  if (root_certificates.empty()) {
    SSL_CTX_set_default_verify_paths(context);
    return;
  }
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(
      BIO_new_mem_buf(root_certificates.data(), static_cast<int>(root_certificates.size())),
      &BIO_free);
  while (X509* const certificate = PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate);
    X509_free(certificate);
  }
}

bool SendAll(int socket, const char* bytes, size_t size, absl::Time deadline) {
  while (size > 0) {
    // Without SIGPIPE, which would end the process where the server has gone.
    const ssize_t sent = send(socket, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN && WaitFor(socket, POLLOUT, deadline)) continue;
    if (sent <= 0) return false;
    bytes += sent;
    size -= sent;
  }
  return true;
}

// Whether it succeeds before the deadline. The session's bytes pass through memory: OpenSSL would
// write them to the socket with SIGPIPE.
bool ShakeHands(int socket, SSL* session, absl::Time deadline) {
  BIO* const received = BIO_new(BIO_s_mem());
  BIO* const to_send = BIO_new(BIO_s_mem());
  SSL_set_bio(session, received, to_send);  // owns both
  std::array<char, 4096> buffer;
  while (true) {
    const int result = SSL_connect(session);
    int size = 0;
    while ((size = BIO_read(to_send, buffer.data(), buffer.size())) > 0) {
      if (!SendAll(socket, buffer.data(), size, deadline)) return false;
    }
    if (result == 1) return true;
    if (SSL_get_error(session, result) != SSL_ERROR_WANT_READ) return false;
    if (!WaitFor(socket, POLLIN, deadline)) return false;
    const ssize_t got = recv(socket, buffer.data(), buffer.size(), 0);
    if (got <= 0 || BIO_write(received, buffer.data(), static_cast<int>(got)) != got) return false;
  }
}

std::string Describe(long verdict) {  // NOLINT(google-runtime-int): OpenSSL's
  switch (verdict) {
    case X509_V_OK:
      return "";
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "has expired, or one that leads to its root has, or this machine's clock is wrong";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "is not valid yet, or this machine's clock is wrong";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return "is not signed by an authority that this client trusts, or the server does not send "
             "those in between";
    default:
      return absl::StrCat("is not trusted: ", X509_verify_cert_error_string(verdict));
  }
}

}  // namespace

std::string WhyNotTrusted(const std::string& address, const std::string& root_certificates,
                          absl::Duration timeout) {
  const absl::Time deadline = Clock::Real()->Now() + timeout;
  const FileDescriptor connection = ConnectTo(address, deadline);
  if (!connection.valid()) return "";
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  Trust(root_certificates, context.get());
  const std::unique_ptr<SSL, decltype(&SSL_free)> session(SSL_new(context.get()), &SSL_free);
  // The connection is made whatever the certificate is, and nothing is sent over it.
  SSL_set_verify(session.get(), SSL_VERIFY_NONE, nullptr);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(session.get(), kHttp2, sizeof(kHttp2));
  if (!ShakeHands(connection.get(), session.get(), deadline)) return "";
  return Describe(SSL_get_verify_result(session.get()));
}

std::string WrongDates(const std::string& certificate) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(
      BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size())), &BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> first(
      PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr), &X509_free);
  if (first == nullptr) return "";
  if (X509_cmp_current_time(X509_get0_notAfter(first.get())) < 0) return "has expired";
  if (X509_cmp_current_time(X509_get0_notBefore(first.get())) > 0) return "is not valid yet";
  return "";
}

}  // namespace chorale::client
