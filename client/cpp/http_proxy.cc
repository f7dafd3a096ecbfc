#include "client/cpp/http_proxy.h"

#include <cstdlib>
#include <initializer_list>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/loopback.h"

namespace chorale::client {
namespace {

// The first of the variables that is set and not empty.
const char* FirstSet(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    // By the caller's promise. NOLINTNEXTLINE(concurrency-mt-unsafe)
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return name;
  }
  return nullptr;
}

std::string ValueOf(const char* name) {
  // By the caller's promise. NOLINTNEXTLINE(concurrency-mt-unsafe)
  return name == nullptr ? "" : std::getenv(name);
}

std::string WithoutUser(absl::string_view url) {
  const size_t scheme = url.find("://");
  const size_t begin = scheme == absl::string_view::npos ? 0 : scheme + 3;
  const size_t at = url.rfind('@');
  if (at == absl::string_view::npos || at < begin) return std::string(url);
  return absl::StrCat(url.substr(0, begin), url.substr(at + 1));
}

}  // namespace

std::optional<HttpProxy> ProxyFor(const std::string& address) {
  if (IsLoopbackAddress(address)) return std::nullopt;
  const char* const variable = FirstSet({"grpc_proxy", "https_proxy", "http_proxy"});
  if (variable == nullptr) return std::nullopt;
  const std::string host = address.substr(0, address.rfind(':'));
  const std::string exceptions = ValueOf(FirstSet({"no_grpc_proxy", "no_proxy"}));
  for (const absl::string_view entry : absl::StrSplit(exceptions, ',', absl::SkipWhitespace())) {
    if (absl::EndsWithIgnoreCase(host, absl::StripAsciiWhitespace(entry))) return std::nullopt;
  }
  return HttpProxy{variable, WithoutUser(ValueOf(variable))};
}

}  // namespace chorale::client
