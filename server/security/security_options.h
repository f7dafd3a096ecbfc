// Access to a server, and the authentication of callers.
#ifndef CHORALE_SERVER_SECURITY_SECURITY_OPTIONS_H_
#define CHORALE_SERVER_SECURITY_SECURITY_OPTIONS_H_

#include <string>
#include <vector>

#include "server/security/tls_identity.h"

namespace chorale {

struct SecurityOptions {
  TlsFiles tls;
  std::string token_file;   // see TokenTable; empty: none
  std::string tenant_file;  // see TenantTable; empty: none

  // If false, every caller is the tenant "default", with all roles.
  bool authenticates() const { return !token_file.empty() || !tls.client_ca.empty(); }
  // All configured files.
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const std::string& file :
         {tls.certificate, tls.key, tls.client_ca, token_file, tenant_file}) {
      if (!file.empty()) files.push_back(file);
    }
    return files;
  }
};

}  // namespace chorale

#endif  // CHORALE_SERVER_SECURITY_SECURITY_OPTIONS_H_
