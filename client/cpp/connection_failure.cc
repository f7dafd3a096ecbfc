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
    return absl::UnauthenticatedError(absl::StrCat(
        "the server at ", address, " and this client do not agree on TLS: ", LastPart(message)));
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
                                             proxy->url, " (of the variable ", proxy->variable,
                                             "; no_proxy lists hosts that need none): ", why));
}

absl::Status ConnectionFailure(const std::string& address, const ClientOptions& options,
                               absl::string_view grpc_message) {
  RETURN_IF_ERROR(TlsVerdict(address, options, grpc_message));
  const bool tls = options.tls.has_value();
  // gRPC reports this if it cannot set up TLS for the connection at all.
  if (tls && absl::StrContains(grpc_message, "empty address list")) {
    return absl::InvalidArgumentError("the certificates or the key for TLS are not valid PEM");
  }
  absl::string_view guess;
  if (absl::StrContains(grpc_message, "Socket closed")) {
    guess = tls ? "; it may want a client certificate" : "; it may want TLS";
  }
  return NoServer(address, absl::StrCat(LastPart(grpc_message), guess));
}

}  // namespace chorale::client
