#include "server/telemetry/line_limit.h"

#include <vector>

#include "server/telemetry/logging.h"

namespace chorale {
namespace {

constexpr char kOthers[] = "(others)";

}  // namespace

bool LineLimit::HasLine(const std::string& source, absl::Time now) {
  MutexLock lock(&mutex_);
  const bool known = by_source_.contains(source) || by_source_.size() < kMostSources;
  Second& second = by_source_.try_emplace(known ? source : kOthers, Second{now, 0}).first->second;
  return ++second.count <= kLinesASecond;
}

void LineLimit::LogSums(absl::Time now) {
  std::vector<std::vector<LogField>> lines;
  {
    MutexLock lock(&mutex_);
    absl::erase_if(by_source_, [&](const auto& entry) {
      const auto& [source, second] = entry;
      if (now - second.begin < absl::Seconds(1)) return false;
      if (const int64_t rest = second.count - kLinesASecond; rest > 0) {
        lines.push_back({{sum_.source, source}, {sum_.count, rest}});
      }
      return true;
    });
  }
  for (const std::vector<LogField>& line : lines) LogEvent(spdlog::level::warn, sum_.event, line);
}

}  // namespace chorale
