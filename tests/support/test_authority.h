// Certificates for servers and clients in tests.
#ifndef CHORALE_TESTS_SUPPORT_TEST_AUTHORITY_H_
#define CHORALE_TESTS_SUPPORT_TEST_AUTHORITY_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace chorale {

// PEM.
struct TestPair {
  std::string certificate;
  std::string key;
};

struct TestSubject {
  std::string common_name;
  std::string alternative_names = {};  // in OpenSSL's form: "IP:127.0.0.1,DNS:a.example"
  // Times from now.
  absl::Duration valid_from = -absl::Hours(48);
  absl::Duration valid_until = absl::Hours(24);
};

// A certificate with a new key that is signed by the key itself.
TestPair SelfSigned(const TestSubject& subject);

// A certificate authority with a new key. Thread-compatible.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name);

  // PEM.
  const std::string& certificate() const { return certificate_; }
  // Signed by this authority. A name in the subject is "CN=...,O=Tests" in RFC 2253's order.
  TestPair Issue(const TestSubject& subject) const;
  // The same for a key that the caller has made.
  TestPair Issue(const TestSubject& subject, EVP_PKEY* key) const;
  // For a server on 127.0.0.1.
  TestPair IssueServer(const std::string& name = "server") const {
    return Issue({name, "IP:127.0.0.1"});
  }

 private:
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
  std::unique_ptr<X509, decltype(&X509_free)> x509_;
  std::string certificate_;
};

}  // namespace chorale

#endif  // CHORALE_TESTS_SUPPORT_TEST_AUTHORITY_H_
