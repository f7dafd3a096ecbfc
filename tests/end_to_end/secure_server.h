// A server with TLS, tokens and tenants.
#ifndef CHORALE_TESTS_END_TO_END_SECURE_SERVER_H_
#define CHORALE_TESTS_END_TO_END_SECURE_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_authority.h"

namespace chorale::end_to_end {

// The line of a token in the server's file; the token is its name followed by "-token".
std::string TokenLine(const std::string& name, const std::string& tenant, const std::string& role,
                      const std::string& expires = "");

// The tokens "acme", "acme-reader", "acme-admin" and "zeta" of the tenants acme and zeta.
class SecureServerTest : public ::testing::Test {
 protected:
  SecureServerTest();
  void TearDown() override;

  // With these flags more than those of TLS, tokens and tenants.
  void Start(const std::vector<std::string>& flags = {});

  std::string Path(const std::string& name) const { return folder_ / name; }
  // Replaces a file at once, as an operator should.
  void Replace(const std::string& name, const std::string& content) const;
  void PutServerCertificate(const TestPair& pair) const;
  void PutTokens(const std::string& more = "") const;

  // Without a certificate of its own, and with one.
  std::shared_ptr<grpc::ChannelCredentials> Tls() const;
  std::shared_ptr<grpc::ChannelCredentials> Tls(const TestPair& pair) const;
  // With a token; empty: none.
  ApiClient Client(const std::string& token, ReceiveWindow window = ReceiveWindow::kDefault) const;
  ApiClient ClientOf(const TestPair& pair) const {
    return ApiClient(server_->address(), Tls(pair));
  }
  grpc::Status ListModels(const ApiClient& client) const;
  PrometheusPage Page() const { return PrometheusPage::Fetch(server_->metrics_address()); }

  TempFolder folder_;
  const TestAuthority authority_{"authority"};
  std::unique_ptr<ServerProcess> server_;
};

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_SECURE_SERVER_H_
