// The certificate, the key and the trusted authorities of a server, and credentials made of them.
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

// Files, in PEM.
struct TlsFiles {
  std::string certificate;  // the server's, then those that lead to its root; empty: no TLS
  std::string key;          // of the first certificate, without a passphrase
  std::string client_ca;    // authorities of client certificates; empty: none are asked for

  bool operator==(const TlsFiles&) const = default;
};

// What the files hold, checked. Handshakes take the newest.
//
// Thread-safe.
class TlsIdentity {
 public:
  struct Content {
    std::string certificate;
    std::string key;
    std::string client_ca;
    absl::Time expires;  // of the server's certificate

    bool operator==(const Content&) const = default;
  };

  // InvalidArgument names the file: it cannot be read, is not PEM, or the key is not that of the
  // certificate.
  static absl::StatusOr<std::shared_ptr<TlsIdentity>> Load(const TlsFiles& files);

  // Reads the files again. The error is Load's, and changes nothing. Connections that are open
  // stay.
  absl::Status Reload();

  // The content, and a number that is another one after each change.
  Content content(int64_t* version) const;
  absl::Time expires() const;
  bool asks_for_client_certificates() const { return !files_.client_ca.empty(); }

 private:
  explicit TlsIdentity(TlsFiles files) : files_(std::move(files)) {}

  const TlsFiles files_;
  mutable Mutex mutex_;
  Content content_ ABSL_GUARDED_BY(mutex_);
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
};

// For one port or acceptor of a server, and no other: plaintext without an identity; with one
// TLS 1.2 or newer, and each handshake uses what the identity holds then. A client may present no
// certificate, but none that is not of the client authorities. Keep them until the server is
// destroyed: gRPC does not.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    std::shared_ptr<const TlsIdentity> identity);

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_TLS_IDENTITY_H_
