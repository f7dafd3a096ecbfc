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
    std::string serial;  // of the server's certificate, in hexadecimal digits
    // When all certificates of the server's chain are valid: clients check each of them.
    absl::Time valid_from;
    absl::Time valid_until;
    absl::Time expires;  // the least end of all certificates, those of client authorities included

    bool operator==(const Content&) const = default;
    bool IsValid(absl::Time now) const { return valid_from <= now && now < valid_until; }
  };

  // InvalidArgument names the file: it cannot be read, is not PEM, or the key is not that of the
  // certificate. One that is not valid now is no error: clients may not look at that.
  static absl::StatusOr<std::shared_ptr<TlsIdentity>> Load(const TlsFiles& files);

  // Reads the files again; whether anything has changed. The error is Load's, and changes nothing;
  // nor does a chain that is not valid at `now`, as long as the one before it is. Connections that
  // are open stay.
  absl::StatusOr<bool> Reload(absl::Time now);

  // The content, and a number that is another one after each change.
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

// For one port or acceptor of a server, and no other: plaintext without an identity; with one
// TLS 1.2 or newer, and each handshake uses what the identity holds then. A client may present no
// certificate, but none that is not of the client authorities. Keep them until the server is
// destroyed: gRPC does not.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    std::shared_ptr<const TlsIdentity> identity);

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_TLS_IDENTITY_H_
