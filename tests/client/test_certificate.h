// Certificates for servers in tests.
#ifndef CHORALE_TESTS_CLIENT_TEST_CERTIFICATE_H_
#define CHORALE_TESTS_CLIENT_TEST_CERTIFICATE_H_

#include <string>

namespace chorale::client {

struct TestCertificate {
  std::string certificate;  // PEM
  std::string key;          // PEM
};

// A new one, signed by itself, for a server of that name; good for a day.
TestCertificate MakeTestCertificate(const std::string& host);

}  // namespace chorale::client

#endif  // CHORALE_TESTS_CLIENT_TEST_CERTIFICATE_H_
