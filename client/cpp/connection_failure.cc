#include "client/cpp/connection_failure.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cpp/http_proxy.h"
#include "client/cpp/tls_diagnosis.h"

namespace chorale::client {
namespace {

// gRPC's messages go from the general to the specific, separated by colons.
absl::string_view LastPart(absl::string_view message) {
  const size_t colon = message.rfind(": ");
  return colon == absl::string_view::npos ? message : message.substr(colon + 2);
}

// OpenSSL's error in gRPC's message. Newer versions of gRPC add what they know of the certificate.
absl::string_view SslError(absl::string_view message) {
  constexpr absl::string_view kBefore = "SSL_ERROR_SSL: ";
  const size_t begin = message.find(kBefore);
  if (begin == absl::string_view::npos) return LastPart(message);
  message.remove_prefix(begin + kBefore.size());
  return message.substr(0, message.find(": "));
}

// What may be wrong with the client's own certificate.
std::string GuessOfCertificate(const TlsOptions& tls) {
  if (tls.client_certificate.empty()) return "; it may require a client certificate";
  const std::string dates = WrongDates(tls.client_certificate);
  return dates.empty() ? "; it may not accept this client's certificate"
                       : absl::StrCat("; this client's certificate ", dates);
}

// The error of a TLS handshake that was refused; OK if the connection failed for another reason.
absl::Status TlsVerdict(const std::string& address, const ClientOptions& options,
                        absl::string_view message) {
  if (absl::StrContains(message, "certificate verify failed")) {
    // Through a proxy it would be another server that answers.
    std::string why = options.tls.has_value() && !ProxyFor(address).has_value()
                          ? WhyNotTrusted(address, options.tls->root_certificates)
                          : "";
    if (why.empty()) {
      why =
          "is not trusted: it has expired, is not valid yet, or is not signed by an authority that "
          "this client trusts";
    }
    return absl::UnauthenticatedError(
        absl::StrCat("the certificate of the server at ", address, " ", why));
  }
  if (absl::StrContains(message, "is not in peer certificate")) {
    return absl::UnauthenticatedError(
        absl::StrCat("the certificate of the server at ", address,
                     " is for another name: use the name in the server's certificate"));
  }
  if (absl::StrContains(message, "wrong version number")) {
    return absl::UnauthenticatedError(
        absl::StrCat("the server at ", address, " does not speak TLS"));
  }
  if (absl::StrContains(message, "SSL_ERROR_SSL")) {
    const std::string dates =
        options.tls.has_value() ? WrongDates(options.tls->client_certificate) : "";
    return absl::UnauthenticatedError(absl::StrCat(
        "the server at ", address, " and this client do not agree on TLS: ", SslError(message),
        dates.empty() ? "" : "; this client's certificate ", dates));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status NoServer(const std::string& address, absl::string_view why) {
  const std::optional<HttpProxy> proxy = ProxyFor(address);
  if (!proxy.has_value()) {
    return absl::UnavailableError(absl::StrCat("no server at ", address, ": ", why));
  }
  return absl::UnavailableError(absl::StrCat("no server at ", address, " through the proxy ",
                                             proxy->url, " (set by ", proxy->variable,
                                             "; no_proxy lists the hosts that bypass it): ", why));
}

absl::Status ConnectionFailure(const std::string& address, const ClientOptions& options,
                               absl::string_view grpc_message) {
  RETURN_IF_ERROR(TlsVerdict(address, options, grpc_message));
  const bool tls = options.tls.has_value();
  // gRPC reports this if it cannot set up TLS for the connection at all.
  if (tls && absl::StrContains(grpc_message, "empty address list")) {
    return absl::InvalidArgumentError("the certificates or the key for TLS are not valid PEM");
  }
  std::string guess;
  if (absl::StrContains(grpc_message, "Socket closed")) {
    guess = tls ? GuessOfCertificate(*options.tls) : "; it may require TLS";
  }
  return NoServer(address, absl::StrCat(LastPart(grpc_message), guess));
}

}  // namespace chorale::client
