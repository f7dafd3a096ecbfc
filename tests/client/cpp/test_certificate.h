// Certificates for servers in tests.
#ifndef CHORALE_TESTS_CLIENT_CPP_TEST_CERTIFICATE_H_
#define CHORALE_TESTS_CLIENT_CPP_TEST_CERTIFICATE_H_

#include <string>

namespace chorale::client {

struct TestCertificate {
  std::string certificate;  // PEM
  std::string key;          // PEM
};

// A new one, signed by itself, for a server at that IP address; good for a day. (Names have to be
// resolved, and the resolver's library leaks a few bytes each time.)
TestCertificate MakeTestCertificate(const std::string& address);

}  // namespace chorale::client

#endif  // CHORALE_TESTS_CLIENT_CPP_TEST_CERTIFICATE_H_
