#include "client/cpp/tls_diagnosis.h"

#include <netdb.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file_descriptor.h"

namespace chorale::client {
namespace {

constexpr int kTimeoutSeconds = 2;

// Connected; invalid if that fails.
FileDescriptor ConnectTo(const std::string& address) {
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
    FileDescriptor connection(socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit = {.tv_sec = kTimeoutSeconds, .tv_usec = 0};
    setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(connection.get(), each->ai_addr, each->ai_addrlen) == 0) return connection;
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

std::string WhyNotTrusted(const std::string& address, const std::string& root_certificates) {
  const FileDescriptor connection = ConnectTo(address);
  if (!connection.valid()) return "";
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  Trust(root_certificates, context.get());
  const std::unique_ptr<SSL, decltype(&SSL_free)> session(SSL_new(context.get()), &SSL_free);
  // The connection is made whatever the certificate is, and nothing is sent over it.
  SSL_set_verify(session.get(), SSL_VERIFY_NONE, nullptr);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(session.get(), kHttp2, sizeof(kHttp2));
  SSL_set_fd(session.get(), connection.get());
  if (SSL_connect(session.get()) != 1) return "";
  return Describe(SSL_get_verify_result(session.get()));
}

}  // namespace chorale::client
