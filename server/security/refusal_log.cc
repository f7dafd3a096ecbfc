#include "server/security/refusal_log.h"

#include <vector>

#include "server/telemetry/logging.h"

namespace chorale {
namespace {

constexpr char kOthers[] = "(others)";

}  // namespace

bool RefusalLog::HasLines(const std::string& peer, absl::Time now) {
  MutexLock lock(&mutex_);
  const bool known = by_peer_.contains(peer) || by_peer_.size() < kMostPeers;
  Second& second = by_peer_.try_emplace(known ? peer : kOthers, Second{now, 0}).first->second;
  return ++second.calls <= kCallsASecond;
}

void RefusalLog::LogSums(absl::Time now) {
  std::vector<std::vector<LogField>> lines;
  {
    MutexLock lock(&mutex_);
    absl::erase_if(by_peer_, [&](const auto& entry) {
      const auto& [peer, second] = entry;
      if (now - second.begin < absl::Seconds(1)) return false;
      if (const int64_t rest = second.calls - kCallsASecond; rest > 0) {
        lines.push_back({{"peer", peer}, {"calls", rest}});
      }
      return true;
    });
  }
  for (const std::vector<LogField>& line : lines) {
    LogEvent(spdlog::level::warn, "refusals_summed", line);
  }
}

}  // namespace chorale
