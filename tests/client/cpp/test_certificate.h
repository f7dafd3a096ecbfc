// Certificates for servers in tests.
#ifndef CHORALE_TESTS_CLIENT_CPP_TEST_CERTIFICATE_H_
#define CHORALE_TESTS_CLIENT_CPP_TEST_CERTIFICATE_H_

#include <string>

namespace chorale::client {

struct TestCertificate {
  std::string certificate;  // PEM
  std::string key;          // PEM
};

// Makes a self-signed certificate for a server at an IP address, valid from a number of days from
// now until another. (Host names would need the resolver, whose library leaks a few bytes each
// time.)
TestCertificate MakeTestCertificate(const std::string& address, int from_day = -1,
                                    int until_day = 1);

}  // namespace chorale::client

#endif  // CHORALE_TESTS_CLIENT_CPP_TEST_CERTIFICATE_H_
