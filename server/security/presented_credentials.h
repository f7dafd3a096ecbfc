// What a client presented to be known by.
#ifndef CHORALE_SERVER_SECURITY_PRESENTED_CREDENTIALS_H_
#define CHORALE_SERVER_SECURITY_PRESENTED_CREDENTIALS_H_

#include <grpcpp/server_context.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/security/tenant_file.h"

namespace chorale {

struct PresentedCredentials {
  // The values of the metadata "authorization".
  std::vector<std::string> authorization;
  // Of a client certificate that the handshake has verified.
  std::optional<CertificateNames> certificate;
  std::string peer_host;
};

PresentedCredentials CredentialsOf(const grpc::ServerContextBase& context);

// "ipv4:127.0.0.1:80" -> "127.0.0.1", "ipv6:%5B::1%5D:80" -> "::1"; other forms as they are.
std::string HostOfPeer(absl::string_view peer);

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_PRESENTED_CREDENTIALS_H_
