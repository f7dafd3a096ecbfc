// The certificate, the key and the trusted authorities of a server, and credentials made from them.
#ifndef CHORALE_SERVER_SECURITY_TLS_IDENTITY_H_
#define CHORALE_SERVER_SECURITY_TLS_IDENTITY_H_

#include <grpcpp/security/server_credentials.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace chorale {

// PEM files.
struct TlsFiles {
  std::string certificate;  // the server's certificate, then its intermediates; empty: no TLS
  std::string key;          // of the first certificate, without a passphrase
  std::string client_ca;    // authorities of client certificates; empty: none are requested

  bool operator==(const TlsFiles&) const = default;
};

// The checked content of the files. Handshakes use the newest content.
//
// Thread-safe.
class TlsIdentity {
 public:
  struct Content {
    std::string certificate;
    std::string key;
    std::string client_ca;
    std::string serial;  // of the server's certificate, in hexadecimal digits
    // The period in which all certificates of the server's chain are valid, because clients check
    // each of them.
    absl::Time valid_from;
    absl::Time valid_until;
    absl::Time expires;  // the earliest expiry of all certificates, including client authorities

    bool operator==(const Content&) const = default;
    bool IsValid(absl::Time now) const { return valid_from <= now && now < valid_until; }
  };

  // InvalidArgument names the file: it cannot be read, is not PEM, or the key does not match the
  // certificate. A certificate that is not valid at the moment is not an error: clients may not
  // check that.
  static absl::StatusOr<std::shared_ptr<TlsIdentity>> Load(const TlsFiles& files);

  // Reads the files again; returns whether their content has changed. On an error of Load, or if
  // the new chain is not valid at `now` but the current chain is, the content does not change. Open
  // connections are not affected.
  absl::StatusOr<bool> Reload(absl::Time now);

  // The content, and a number that differs after each change.
  Content content(int64_t* version) const;
  Content content() const;
  absl::Time expires() const { return content().expires; }
  bool asks_for_client_certificates() const { return !files_.client_ca.empty(); }

 private:
  explicit TlsIdentity(TlsFiles files) : files_(std::move(files)) {}

  const TlsFiles files_;
  mutable Mutex mutex_;
  Content content_ ABSL_GUARDED_BY(mutex_);
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Credentials for a single port or acceptor of a server: plaintext without an identity; otherwise
// TLS 1.2 or newer, and each handshake uses the content of the identity at that time. A client may
// present no certificate, but must not present a certificate of another authority. Keep the
// credentials until the server is destroyed: gRPC does not.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    std::shared_ptr<const TlsIdentity> identity);

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_TLS_IDENTITY_H_
