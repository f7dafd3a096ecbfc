#include "client/cpp/server_address.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace chorale::client {
namespace {

constexpr uint32_t kMaxPort = 65535;
constexpr char kExpected[] = "expected HOST:PORT, [IPV6]:PORT, unix:PATH or https://HOST";

// Forms of gRPC, which are passed to it unchanged.
constexpr absl::string_view kOtherForms[] = {
    "unix:", "unix-abstract:",    "vsock:",     "xds:", "dns:", "ipv4:",
    "ipv6:", "xds-experimental:", "google-c2p:"};

absl::Status Refuse(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("the server's address '", text, "' ", why, ": ", kExpected));
}

// "dns:///HOST:PORT", "dns:HOST:PORT", "ipv4:HOST:PORT" and "ipv6:HOST:PORT" mean what "HOST:PORT"
// does, unless they list several addresses or name a DNS server.
void StripForm(absl::string_view* text) {
  absl::string_view rest = *text;
  if (absl::StrContains(rest, ",")) return;
  const bool dns = absl::ConsumePrefix(&rest, "dns:");
  if (dns) absl::ConsumePrefix(&rest, "///");
  if (!dns && !absl::ConsumePrefix(&rest, "ipv4:") && !absl::ConsumePrefix(&rest, "ipv6:")) return;
  if (absl::StrContains(rest, "/")) return;
  *text = rest;
}

// Returns HOST:PORT. `port` is the default; if it is empty, `text` must have a port.
absl::StatusOr<std::string> HostAndPort(absl::string_view text, absl::string_view whole,
                                        absl::string_view port) {
  const size_t bracket = text.rfind(']');
  const size_t colon = text.rfind(':');
  const bool has_port =
      colon != absl::string_view::npos && (bracket == absl::string_view::npos || colon > bracket);
  const absl::string_view host = has_port ? text.substr(0, colon) : text;
  const absl::string_view given = has_port ? text.substr(colon + 1) : port;
  if (host.empty()) return Refuse(whole, "has no host");
  const bool bracketed = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  if (!bracketed && absl::StrContains(host, ":")) {
    return Refuse(whole, "is an IPv6 address without brackets");
  }
  if (host.find_first_of(" /@?#\\\t\r\n") != absl::string_view::npos) {
    return Refuse(whole, "has an invalid host");
  }
  if (!has_port && port.empty()) {
    return Refuse(whole, absl::StrCat("has no port (example: ", host, ":50051)"));
  }
  uint32_t number = 0;
  if (given.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(given, &number) || number == 0 || number > kMaxPort) {
    return Refuse(whole, absl::StrCat("has the invalid port '", given, "'"));
  }
  // Host names are not case-sensitive, but gRPC compares them case-sensitively.
  return absl::StrCat(absl::AsciiStrToLower(host), ":", given);
}

}  // namespace

absl::StatusOr<ServerAddress> ParseServerAddress(absl::string_view text) {
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  if (rest.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the server's address is empty: ", kExpected));
  }
  StripForm(&rest);
  for (const absl::string_view form : kOtherForms) {
    if (absl::StartsWith(rest, form)) return ServerAddress{std::string(rest)};
  }
  AddressScheme scheme = AddressScheme::kNone;
  if (const size_t end = rest.find("://"); end != absl::string_view::npos) {
    const std::string name = absl::AsciiStrToLower(rest.substr(0, end));
    if (name == "https" || name == "grpcs") {
      scheme = AddressScheme::kTls;
    } else if (name == "http" || name == "grpc" || name == "tcp") {
      scheme = AddressScheme::kPlain;
    } else {
      return Refuse(text, absl::StrCat("has the unknown scheme '", name, "'"));
    }
    const bool https = name == "https";
    rest.remove_prefix(end + 3);
    absl::ConsumeSuffix(&rest, "/");
    if (absl::StrContains(rest, "/"))
      return Refuse(text, "has a path, which gRPC does not support");
    ASSIGN_OR_RETURN(std::string address, HostAndPort(rest, text, https ? "443" : ""));
    return ServerAddress{std::move(address), scheme};
  }
  ASSIGN_OR_RETURN(std::string address, HostAndPort(rest, text, ""));
  return ServerAddress{std::move(address), scheme};
}

}  // namespace chorale::client
