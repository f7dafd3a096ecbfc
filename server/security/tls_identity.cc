#include "server/security/tls_identity.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/config/file_text.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Freer<BIO_free>>;
using CertificatePtr = std::unique_ptr<X509, Freer<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>>;
using ConnectionPtr = std::unique_ptr<SSL, Freer<SSL_free>>;

// A server must not ask for a passphrase on its terminal.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*data*/) { return -1; }

BioPtr Open(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::Status Refuse(const std::string& file, absl::string_view what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", what));
}

// One or more certificates, all of which can be read.
absl::StatusOr<std::vector<CertificatePtr>> ReadCertificates(const std::string& file,
                                                             const std::string& text) {
  const BioPtr bio = Open(text);
  std::vector<CertificatePtr> certificates;
  while (true) {
    CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr));
    if (certificate == nullptr) break;
    certificates.push_back(std::move(certificate));
  }
  const unsigned long last = ERR_peek_last_error();  // NOLINT(google-runtime-int): OpenSSL's type
  const bool at_end =
      ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
  if (certificates.empty()) return Refuse(file, "contains no PEM certificate");
  if (!at_end) return Refuse(file, "contains a certificate that cannot be parsed");
  ERR_clear_error();
  return certificates;
}

// When all of them are valid.
struct Validity {
  absl::Time from = absl::InfinitePast();
  absl::Time until = absl::InfiniteFuture();
};

absl::StatusOr<Validity> ValidityOf(const std::string& file,
                                    const std::vector<CertificatePtr>& certificates) {
  Validity validity;
  for (const CertificatePtr& certificate : certificates) {
    std::tm begin = {};
    std::tm end = {};
    if (ASN1_TIME_to_tm(X509_get0_notBefore(certificate.get()), &begin) != 1 ||
        ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
      return Refuse(file, "contains a certificate without a valid notBefore or notAfter");
    }
    validity.from = std::max(validity.from, absl::FromTM(begin, absl::UTCTimeZone()));
    validity.until = std::min(validity.until, absl::FromTM(end, absl::UTCTimeZone()));
  }
  return validity;
}

std::string SerialOf(const X509& certificate) {
  const ASN1_INTEGER* const serial = X509_get0_serialNumber(&certificate);
  return absl::BytesToHexString({reinterpret_cast<const char*>(ASN1_STRING_get0_data(serial)),
                                 static_cast<size_t>(ASN1_STRING_length(serial))});
}

// Why OpenSSL's last call failed, in its words.
std::string LastError() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "unknown error" : reason;
}

// Whether a connection with the pair can be made. Which keys, curves and sizes are allowed, the TLS
// library decides in several places: so a server and a client shake hands, in memory.
absl::Status TryHandshake(X509* certificate, EVP_PKEY* key) {
  const ContextPtr server_context(SSL_CTX_new(TLS_server_method()));
  const ContextPtr client_context(SSL_CTX_new(TLS_client_method()));
  if (SSL_CTX_use_certificate(server_context.get(), certificate) != 1 ||
      SSL_CTX_use_PrivateKey(server_context.get(), key) != 1) {
    return absl::InvalidArgumentError(LastError());
  }
  SSL_CTX_set_min_proto_version(server_context.get(), TLS1_2_VERSION);
  const ConnectionPtr server(SSL_new(server_context.get()));
  const ConnectionPtr client(SSL_new(client_context.get()));
  BIO* to_server = nullptr;
  BIO* to_client = nullptr;
  BIO_new_bio_pair(&to_client, 0, &to_server, 0);
  SSL_set_bio(server.get(), to_client, to_client);
  SSL_set_bio(client.get(), to_server, to_server);
  SSL_set_accept_state(server.get());
  SSL_set_connect_state(client.get());
  // Each side goes on until it needs the other; a handshake has three such turns at most.
  for (int turn = 0; turn < 10; ++turn) {
    for (SSL* const side : {client.get(), server.get()}) {
      const int result = SSL_do_handshake(side);
      if (result != 1 && SSL_get_error(side, result) == SSL_ERROR_SSL) {
        return absl::InvalidArgumentError(LastError());
      }
    }
    if (SSL_is_init_finished(client.get()) == 1 && SSL_is_init_finished(server.get()) == 1) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError("the TLS handshake does not complete");
}

absl::StatusOr<TlsIdentity::Content> ReadContent(const TlsFiles& files) {
  TlsIdentity::Content content;
  ASSIGN_OR_RETURN(std::string certificate_text, ReadFileText(files.certificate));
  ASSIGN_OR_RETURN(std::string key_text, ReadFileText(files.key));
  ASSIGN_OR_RETURN(const std::vector<CertificatePtr> chain,
                   ReadCertificates(files.certificate, certificate_text));
  X509* const certificate = chain.front().get();
  const KeyPtr key(PEM_read_bio_PrivateKey(Open(key_text).get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) return Refuse(files.key, "contains no PEM private key without a passphrase");
  if (X509_check_private_key(certificate, key.get()) != 1) {
    return Refuse(files.key, absl::StrCat("does not match the certificate in ", files.certificate));
  }
  if (const absl::Status usable = TryHandshake(certificate, key.get()); !usable.ok()) {
    return Refuse(files.certificate, absl::StrCat("no client can connect with the certificate and ",
                                                  files.key, ": ", usable.message()));
  }
  ASSIGN_OR_RETURN(const Validity validity, ValidityOf(files.certificate, chain));
  content.serial = SerialOf(*certificate);
  content.valid_from = validity.from;
  content.valid_until = content.expires = validity.until;
  if (!files.client_ca.empty()) {
    ASSIGN_OR_RETURN(std::string client_ca, ReadFileText(files.client_ca));
    ASSIGN_OR_RETURN(const std::vector<CertificatePtr> authorities,
                     ReadCertificates(files.client_ca, client_ca));
    ASSIGN_OR_RETURN(const Validity of_authorities, ValidityOf(files.client_ca, authorities));
    content.expires = std::min(content.expires, of_authorities.until);
    content.client_ca = std::move(client_ca);
  }
  content.certificate = std::move(certificate_text);
  content.key = std::move(key_text);
  return content;
}

// gRPC's C++ credentials either never change or watch files by themselves, and take over a
// certificate without its key. The C interface asks at each handshake.
class CertificateSource {
 public:
  explicit CertificateSource(std::shared_ptr<const TlsIdentity> identity)
      : identity_(std::move(identity)) {}
  CertificateSource(const CertificateSource&) = delete;
  CertificateSource& operator=(const CertificateSource&) = delete;

  // Credentials that ask this source, which must live longer.
  grpc_server_credentials* MakeCredentials() {
    const auto client_certificates = identity_->asks_for_client_certificates()
                                         ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
                                         : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(client_certificates, Fetch,
                                                                        this));
  }

 private:
  // gRPC calls it for one handshake of an acceptor at a time. Without a new configuration it keeps
  // the one that the acceptor has.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    auto* const source = static_cast<CertificateSource*>(self);
    int64_t version = 0;
    const TlsIdentity::Content content = source->identity_->content(&version);
    if (version == source->fetched_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    source->fetched_ = version;
    grpc_ssl_pem_key_cert_pair pair = {content.key.c_str(), content.certificate.c_str()};
    // gRPC insists on authorities, also where no client is asked for a certificate.
    const std::string& roots = content.client_ca.empty() ? content.certificate : content.client_ca;
    *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<const TlsIdentity> identity_;
  int64_t fetched_ = 0;
};

#ifdef CHORALE_GRPC_CREDENTIALS_INTERFACE

class TlsServerCredentials final : private CertificateSource, public grpc::ServerCredentials {
 public:
  explicit TlsServerCredentials(std::shared_ptr<const TlsIdentity> identity)
      : CertificateSource(std::move(identity)), credentials_(MakeCredentials()) {}
  ~TlsServerCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

#else  // Later ones wrap, and release, those of the C interface.

class TlsServerCredentials final : private CertificateSource, public grpc::ServerCredentials {
 public:
  explicit TlsServerCredentials(std::shared_ptr<const TlsIdentity> identity)
      : CertificateSource(std::move(identity)), grpc::ServerCredentials(MakeCredentials()) {}
};

#endif

}  // namespace

absl::StatusOr<std::shared_ptr<TlsIdentity>> TlsIdentity::Load(const TlsFiles& files) {
  std::shared_ptr<TlsIdentity> identity(new TlsIdentity(files));
  RETURN_IF_ERROR(identity->Reload(absl::InfinitePast()).status());
  return identity;
}

absl::StatusOr<bool> TlsIdentity::Reload(absl::Time now) {
  ASSIGN_OR_RETURN(Content content, ReadContent(files_));
  MutexLock lock(&mutex_);
  if (version_ > 0 && content_ == content) return false;
  if (version_ > 0 && content_.IsValid(now) && !content.IsValid(now)) {
    return Refuse(
        files_.certificate,
        absl::StrCat("contains a certificate that is valid from ", LogTime(content.valid_from),
                     " until ", LogTime(content.valid_until),
                     ", but not now; the server keeps the previous certificate, which is valid"));
  }
  content_ = std::move(content);
  ++version_;
  return true;
}

TlsIdentity::Content TlsIdentity::content(int64_t* version) const {
  MutexLock lock(&mutex_);
  *version = version_;
  return content_;
}

TlsIdentity::Content TlsIdentity::content() const {
  MutexLock lock(&mutex_);
  return content_;
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    std::shared_ptr<const TlsIdentity> identity) {
  if (identity == nullptr) return grpc::InsecureServerCredentials();
  return std::make_shared<TlsServerCredentials>(std::move(identity));
}

}  // namespace chorale
