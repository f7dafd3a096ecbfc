// What is wrong with a certificate: gRPC does not say.
#ifndef CHORALE_CLIENT_CPP_TLS_DIAGNOSIS_H_
#define CHORALE_CLIENT_CPP_TLS_DIAGNOSIS_H_

#include <string>

#include "absl/time/time.h"

namespace chorale::client {

// Makes a TLS connection of its own to `address` (HOST:PORT or [IPV6]:PORT) and returns what is
// wrong with the server's certificate, to follow its name: "has expired on ...".
// `root_certificates`: PEM; empty: the system's. Empty if nothing is, or if the TLS handshake does
// not end within `timeout`.
std::string WhyNotTrusted(const std::string& address, const std::string& root_certificates,
                          absl::Duration timeout = absl::Seconds(2));

// "has expired" or "is not valid yet", by this machine's clock, of the first of these certificates
// (PEM); else empty.
std::string WrongDates(const std::string& certificate);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_TLS_DIAGNOSIS_H_
