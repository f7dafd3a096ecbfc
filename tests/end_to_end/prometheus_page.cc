#include "tests/end_to_end/prometheus_page.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace chorale::end_to_end {
namespace {

// The whole answer of one HTTP/1.0 exchange, headers and body; empty when there is none.
std::string HttpGet(const std::string& address, const std::string& path) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(address, ':');
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  int port = 0;
  if (!absl::SimpleAtoi(parts.second, &port)) return "";
  peer.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, parts.first.c_str(), &peer.sin_addr) != 1) return "";
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) return "";
  const timeval timeout{10, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  std::string answer;
  if (connect(connection, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) == 0) {
    const std::string request =
        absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: ", address, "\r\n\r\n");
    if (send(connection, request.data(), request.size(), MSG_NOSIGNAL) ==
        static_cast<ssize_t>(request.size())) {
      char block[65536];
      for (ssize_t n = 0; (n = recv(connection, block, sizeof(block), 0)) > 0;) {
        answer.append(block, static_cast<size_t>(n));
      }
    }
  }
  close(connection);
  return answer;
}

// True when `series`, "name{labels}" or "name", has that name and those labels.
bool Matches(absl::string_view series, const std::string& name, const std::string& labels) {
  if (!absl::StartsWith(series, name)) return false;
  const absl::string_view rest = series.substr(name.size());
  if (!rest.empty() && rest[0] != '{') return false;
  return absl::StrContains(rest, labels);
}

}  // namespace

PrometheusPage PrometheusPage::Fetch(const std::string& address, const std::string& path) {
  PrometheusPage page;
  const std::string answer = HttpGet(address, path);
  const size_t body = answer.find("\r\n\r\n");
  if (body == std::string::npos) return page;
  page.ok_ = absl::StrContains(answer.substr(0, answer.find("\r\n")), " 200");
  page.text_ = answer.substr(body + 4);
  for (absl::string_view line : absl::StrSplit(page.text_, '\n')) {
    if (absl::StartsWith(line, "# TYPE ")) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      if (words.size() == 4) page.types_[words[2]] = words[3];
    }
    const size_t space = line.rfind(' ');
    double value = 0;
    if (line.empty() || line[0] == '#' || space == absl::string_view::npos) continue;
    if (absl::SimpleAtod(line.substr(space + 1), &value)) {
      page.series_[std::string(line.substr(0, space))] = value;
    }
  }
  return page;
}

double PrometheusPage::Value(const std::string& name, const std::string& labels) const {
  double sum = 0;
  for (const auto& [series, value] : series_) {
    if (Matches(series, name, labels)) sum += value;
  }
  return sum;
}

bool PrometheusPage::Has(const std::string& name, const std::string& labels) const {
  for (const auto& [series, value] : series_) {
    if (Matches(series, name, labels)) return true;
  }
  return false;
}

std::string PrometheusPage::Type(const std::string& name) const {
  const auto found = types_.find(name);
  return found == types_.end() ? "" : found->second;
}

}  // namespace chorale::end_to_end
