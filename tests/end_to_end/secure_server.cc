#include "tests/end_to_end/secure_server.h"

#include <openssl/sha.h>

#include <filesystem>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/model_files.h"

namespace chorale::end_to_end {

std::string TokenLine(const std::string& name, const std::string& tenant, const std::string& role,
                      const std::string& expires) {
  const std::string token = name + "-token";
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest);
  return absl::StrCat(name, " ",
                      absl::BytesToHexString(
                          absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest))),
                      " ", tenant, " ", role, " ", expires, "\n");
}

SecureServerTest::SecureServerTest() {
  PutServerCertificate(authority_.IssueServer());
  Replace("ca", authority_.certificate());
  PutTokens();
  Replace("tenants", "tenants: {}\n");
}

void SecureServerTest::TearDown() {
  if (server_ != nullptr) server_->Terminate();
}

void SecureServerTest::Start(const std::vector<std::string>& flags) {
  ServerOptions options = {
      .models = {GoldenFolder("golden_tiny")},
      .flags = {"--tls_certificate=" + Path("crt"), "--tls_key=" + Path("key"),
                "--tls_client_ca=" + Path("ca"), "--token_file=" + Path("tokens"),
                "--tenant_file=" + Path("tenants")},
      .tls = true};
  options.flags.insert(options.flags.end(), flags.begin(), flags.end());
  server_ = ServerProcess::Start(options);
  ASSERT_NE(server_, nullptr);
}

void SecureServerTest::Replace(const std::string& name, const std::string& content) const {
  WriteFile(Path(name + ".next"), content);
  std::filesystem::rename(Path(name + ".next"), Path(name));
}

void SecureServerTest::PutServerCertificate(const TestPair& pair) const {
  Replace("crt", pair.certificate);
  Replace("key", pair.key);
}

void SecureServerTest::PutTokens(const std::string& more) const {
  Replace("tokens", absl::StrCat(TokenLine("acme", "acme", "register"),
                                 TokenLine("acme-reader", "acme", "read"),
                                 TokenLine("acme-admin", "acme", "admin"),
                                 TokenLine("zeta", "zeta", "register"), more));
}

std::shared_ptr<grpc::ChannelCredentials> SecureServerTest::Tls() const {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = authority_.certificate();
  return grpc::SslCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> SecureServerTest::Tls(const TestPair& pair) const {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = authority_.certificate();
  options.pem_cert_chain = pair.certificate;
  options.pem_private_key = pair.key;
  return grpc::SslCredentials(options);
}

ApiClient SecureServerTest::Client(const std::string& token, ReceiveWindow window) const {
  if (token.empty()) return ApiClient(server_->address(), Tls(), window);
  return ApiClient(
      server_->address(),
      grpc::CompositeChannelCredentials(Tls(), grpc::AccessTokenCredentials(token + "-token")),
      window);
}

grpc::Status SecureServerTest::ListModels(const ApiClient& client) const {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  v1::ListModelsResponse response;
  return client.stub().ListModels(&context, {}, &response);
}

}  // namespace chorale::end_to_end
