#include "server/security/presented_credentials.h"

#include <grpc/grpc_security_constants.h>

#include <memory>

namespace chorale {
namespace {

std::vector<std::string> PropertiesOf(const grpc::AuthContext& context, const char* name) {
  std::vector<std::string> values;
  for (const grpc::string_ref& value : context.FindPropertyValues(name)) {
    values.emplace_back(value.data(), value.size());
  }
  return values;
}

}  // namespace

PresentedCredentials CredentialsOf(const grpc::ServerContextBase& context,
                                   const PeerAddress& peer) {
  PresentedCredentials presented;
  const auto& metadata = context.client_metadata();
  const auto [first, last] = metadata.equal_range("authorization");
  for (auto header = first; header != last; ++header) {
    presented.authorization.emplace_back(header->second.data(), header->second.size());
  }
  presented.peer_host = peer.host();
  const std::shared_ptr<const grpc::AuthContext> authentication = context.auth_context();
  if (authentication == nullptr || !authentication->IsPeerAuthenticated()) return presented;
  CertificateNames names;
  const std::vector<std::string> subjects =
      PropertiesOf(*authentication, GRPC_X509_SUBJECT_PROPERTY_NAME);
  if (subjects.size() == 1) names.subject = subjects[0];
  names.dns = PropertiesOf(*authentication, GRPC_PEER_DNS_PROPERTY_NAME);
  names.uris = PropertiesOf(*authentication, GRPC_PEER_URI_PROPERTY_NAME);
  presented.certificate = std::move(names);
  return presented;
}

}  // namespace chorale
