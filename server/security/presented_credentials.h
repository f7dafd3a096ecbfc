// The credentials that a client presented.
#ifndef CHORALE_SERVER_SECURITY_PRESENTED_CREDENTIALS_H_
#define CHORALE_SERVER_SECURITY_PRESENTED_CREDENTIALS_H_

#include <grpcpp/server_context.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/net/peer_address.h"
#include "server/security/tenant_file.h"

namespace chorale {

struct PresentedCredentials {
  // The values of the metadata "authorization".
  std::vector<std::string> authorization;
  // From a client certificate that the handshake has verified.
  std::optional<CertificateNames> certificate;
  std::string peer_host;  // PeerAddress::host
};

// `peer`: the other end of the call's connection.
PresentedCredentials CredentialsOf(const grpc::ServerContextBase& context, const PeerAddress& peer);

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_PRESENTED_CREDENTIALS_H_
